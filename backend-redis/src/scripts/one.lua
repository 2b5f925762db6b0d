-- The beginning of every script of a queue, and the folded form of a queue: one string in place of
-- the whole layout (queue.lua), while there is no contention. Shapes x and rw only.
--
--   one   string   free: "last", the last sequence number
--                  held: "sequence id expiry ttl claim joined inbox label": the only node, admitted, the last to join
--                        (with its data after the label: labelled())
--
-- Invariant: while "one" exists, the other keys of the queue have no node and no live tombstone.
-- An operation that needs more than this one node (a second node that is not refused, a tombstone, a
-- downgrade, a revocation) unfolds the queue: open() writes the node in full and removes "one". The
-- operation that leaves the queue empty, without a live tombstone, folds it again: close(). The
-- folded form is the same queue in a shorter text, and as safe:
--   - The server runs no other command during a script: a script finds one of the two forms, and
--     changes one into the other in one step.
--   - The node is admitted. When the queue is unfolded, "front" is set to this node: it gets no second
--     message, and only the rule can admit another node together with it.
--   - The node was the last to join, so its sequence number is "last" too. When the queue is unfolded,
--     "last" is the higher of both.
--   - An expired node is gone in this form too. A renewal and a leave name id AND sequence number. An
--     expiry is clamped on reading. If the state differs from the text (the node has expired, or the
--     clock was stepped back), the script takes the long form, which writes the new state: the next
--     script reads the same, for any step of the clock.
--   - A late join of an abandoned attempt never meets a folded queue: its tombstone keeps the queue
--     unfolded.
--   - If "one" does not exist, the queue is unfolded or was never used. Or an operator or an eviction
--     has removed "one" with its node: then the owner's renewal returns "gone".
--   - A node is written with the life that its own client asks for, more than two of its TTLs: a
--     held node outlives its lease, even if other clients remember a queue for a shorter time.
-- Text of another form is neither node nor number. A key of another type is an error before any
-- write. For a join, so is a number out of range, because no next number can be counted from it. All
-- other operations ignore such a number, and do not change it.

local call = redis.call
-- The last argument of every script: how long the key with the last sequence number outlives its
-- last use, in milliseconds. It exceeds the user's setting by more than the interval at which it is
-- set again.
local LIFE = tonumber(ARGV[#ARGV])
-- The highest sequence number: Lua's numbers are exact up to here.
local TOP = 9007199254740991
-- A flag of an answer: the server has refused a PUBLISH.
local PUBLISH_REFUSED = 2

-- A time is a whole number of microseconds, below 2^53 and so exact. It stays exact as an argument
-- of call(), where the server writes 17 digits. tostring() and .. would round it.
local function num(n)
  return string.format('%.0f', n)
end

-- The server's time, unless a test gives its own.
local function time(override)
  if override ~= '' then
    return tonumber(override)
  end
  local t = call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- Returns the limit at this key; or nothing, and the beginning of a text that is not a limit. A
-- limit is decimal digits, from 1 to 4294967295. Core's StoredLimit reads the same, and a test
-- compares both.
local function stored_limit(key)
  local text = call('GET', key)
  local limit = text and string.find(text, '^%d+$') and tonumber(text)
  if limit and limit >= 1 and limit <= 4294967295 then
    return limit
  end
  return nil, text and string.sub(text, 1, 260)
end

-- Returns the number in a text: whole, not negative, and exact. Nothing for any other text, which
-- is foreign.
local function sound(text)
  local n = tonumber(text or nil)
  return n and n >= 0 and n <= TOP and n % 1 == 0 and n or nil
end

-- Returns the node in the text: sequence, id, expiry, ttl, claim (all text), and "joined inbox
-- label". Nothing if the queue is free.
local function inline(text)
  local seq, id, expiry, ttl, claim, rest = string.match(text, '^(%d+) (%S+) (%d+) (%d+) ([xs]) (%d+ %S+ .*)$')
  if seq and sound(seq) and sound(expiry) and sound(ttl) and sound(string.match(rest, '^%d+')) then
    return seq, id, expiry, ttl, claim, rest
  end
end

-- A label, and the data after it. A NUL separates them, and no label contains a NUL. Data may
-- contain any bytes. A node without data has no NUL.
local function labelled(text)
  local at = string.find(text, '\0', 1, true)
  if at then
    return string.sub(text, 1, at - 1), string.sub(text, at + 1)
  end
  return text, ''
end

-- The shape of a queue, and whether its kind is observed: then a + follows the shape.
local function shaped(word)
  if string.sub(word, -1) == '+' then
    return string.sub(word, 1, -2), true
  end
  return word, false
end

-- Returns whether an error has this code. Redis 6.2 writes it after the place in the script. Names of
-- keys occur later in the words.
local function wrongtype(words)
  words = string.gsub(words, '^@user_script: %d+: %-?', '')
  return string.sub(words, 1, 9) == 'WRONGTYPE'
end

-- Returns a command's answer; nothing if the key has a foreign type, so that the script can go on
-- with its other keys. Any other refusal (for example, the server is a replica now) is an error of
-- the whole call.
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    if not wrongtype(answer.err) then
      error(answer.err, 0)
    end
    return nil
  end
  return answer
end

-- Notifies the watches of a channel of a change; with `ends`, the node or cell there may expire. A
-- refusal (an ACL without the channel) must not leave the work half done: it is only reported, as a
-- flag.
local function tell(channel, ends)
  local answer = redis.pcall('PUBLISH', channel, ends and '+' or '')
  return type(answer) == 'table' and answer.err and PUBLISH_REFUSED or 0
end

-- The channel of an observed queue, from its first key.
local function news(seq)
  return string.sub(seq, 1, -4) .. 'news'
end

-- Ends a join before any write. The client knows the word, and names the key in its error.
local function refuse(key)
  error('OUTOFRANGE [' .. key .. ']', 0)
end

-- The text of "one" that a short form has read, so that open() need not read it; nil without a
-- short form.
local known

-- Writes the folded form for a renewal or a leave, which must work on a server without memory:
-- after a command that such a server allows, the server allows the rest of the script too.
local function put(one, text, ...)
  if redis.pcall('SET', one, text, ...).err then
    call('PEXPIRE', one, LIFE)
    call('SET', one, text, 'KEEPTTL')
  end
end
