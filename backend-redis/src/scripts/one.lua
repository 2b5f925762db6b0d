-- What every script of a queue begins with, and the folded form of a queue: one string in place of the whole layout
-- (see queue.lua), for a queue that nobody contends for. Shapes x and rw only.
--
--   one   string   free: "last", the last sequence number
--                  held: "sequence id expiry ttl claim joined inbox label": the only node, admitted, the last that came
--
-- Invariant: while "one" is there, the other keys of the queue hold no node, and no tombstone that is still alive.
-- What needs more than one node (a second one that is not refused, a tombstone, a downgrade, a revocation) unfolds the
-- queue: open() writes the node out and removes "one". Whoever then leaves it empty, with no tombstone alive, folds it
-- again: close(). Why that is safe: it is the same queue, written shorter.
--   - Every script runs alone, so it finds one of the two forms, and goes from one to the other in one step.
--   - The node is admitted. Unfolded, "front" is set to it: it is not told again, and nobody is let in beside it but
--     by the rule.
--   - It is the last that joined, so its sequence number is "last" too; unfolded, "last" is the higher of both.
--   - Expired is gone here too; a node is renewed and left by id AND sequence number; an expiry is clamped on reading.
--     Whoever sees other than what is written (it has expired, the clock was stepped back) goes the long way, which
--     writes it: the next one sees the same, whatever the clock does.
--   - A late join of an abandoned attempt never meets a folded queue: its tombstone keeps the queue unfolded.
--   - No "one": the queue is unfolded, or was never used. Or an operator or an eviction has removed it, and with it its
--     node: its owner's renewal then says gone.
--   - A node is written with the life of its owner's client, which is more than two of its TTLs: however short a while
--     others remember a queue for, what is held outlives its lease.
-- A text of another form is neither node nor number; a key of another type is an error before anything is written. So is
-- a number out of range, to a join: nothing could be counted on from there. To all others it is not there, and stays.

local call = redis.call
-- The last argument of every script: how long what remembers the last sequence number outlives its last use, in
-- milliseconds. Longer than the client was told, by more than the time after which it is set anew.
local LIFE = tonumber(ARGV[#ARGV])
-- The highest sequence number: the scripts' numbers are exact up to here.
local TOP = 9007199254740991

-- A time is a whole number of microseconds, below 2^53 and so exact. It stays so as an argument of call(), where the
-- server writes 17 digits; tostring() and .. would round it.
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

-- The limit that is stored at this key; or nothing, and the beginning of the text that is no limit. A limit is written in decimal
-- digits, from 1 to 4294967295: core's StoredLimit reads the same, and a test feeds both.
local function stored_limit(key)
  local text = call('GET', key)
  local limit = text and string.find(text, '^%d+$') and tonumber(text)
  if limit and limit >= 1 and limit <= 4294967295 then
    return limit
  end
  return nil, text and string.sub(text, 1, 260)
end

-- The number that was written: whole, not negative, and exact. Nothing when it is another: somebody else wrote it.
local function sound(text)
  local n = tonumber(text or nil)
  return n and n >= 0 and n <= TOP and n % 1 == 0 and n or nil
end

-- The node in the text: sequence, id, expiry, ttl, claim (all text), and "joined inbox label". Nothing when it is free.
local function inline(text)
  local seq, id, expiry, ttl, claim, rest = string.match(text, '^(%d+) (%S+) (%d+) (%d+) ([xs]) (%d+ %S+ .*)$')
  if seq and sound(seq) and sound(expiry) and sound(ttl) and sound(string.match(rest, '^%d+')) then
    return seq, id, expiry, ttl, claim, rest
  end
end

-- Ends a join before anything is written. The client knows the word, and names the key.
local function refuse(key)
  error('OUTOFRANGE [' .. key .. ']', 0)
end

-- What the short way has read of "one", so that open() need not: nothing when there was no short way.
local known

-- Writes the folded form where a renewal or a leave must pass without memory: behind a command that the server lets
-- through, it lets the rest through too.
local function put(one, text, ...)
  if redis.pcall('SET', one, text, ...).err then
    call('PEXPIRE', one, LIFE)
    call('SET', one, text, 'KEEPTTL')
  end
end
