-- What every script of a queue begins with, and the folded form of a queue: one string in place of the whole layout
-- (see queue.lua), for the queue that nobody contends for. Shapes x and rw only.
--
--   one   string   free: "last", the last sequence number
--                  held: "sequence claim expiry ttl id joined inbox label": the only node, admitted, and the last that came
--
-- Invariant: while "one" is there, the other keys of the queue hold no node and no tombstone that is still alive.
-- What is needed beyond one node (a second one that is not refused, a tombstone, an operator) unfolds the queue: open() writes
-- the node out and removes "one". Who then leaves it empty, with no tombstone alive, folds it again: close().
-- Why that is safe: it is the same queue, written shorter.
--   - Each script finds one of the two forms, since it runs alone, and changes from one to the other in one go.
--   - The node is admitted, and front is set to it when it is unfolded: it is told nothing, and nobody is let in beside it but
--     by the rule.
--   - It is the last that joined, so that its sequence number is "last" too; unfolded, last is the higher of both.
--   - Expired is gone here too, a node is renewed and left by id AND sequence number, its expiry is clamped on reading, and who
--     finds any of this different from what is written sees to it that it is written: it goes the long way.
--   - A join of an id that was abandoned cannot find a folded queue: its tombstone keeps the queue unfolded.
--   - No "one": the queue is unfolded, was never used, or an operator or an eviction has removed it, and with it its node: then the
--     holder's renewal says gone.
-- A text of another form is no node, and no number; a key of another type is an error, before anything is written.
-- "one" lives 25 hours from its last write, far beyond the node's own expiry.

local call = redis.call
local LIFE = '90000000'

-- A time is a whole number of microseconds, below 2^53 and so exact; tostring() would round it.
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

-- The node in the text: sequence, claim, expiry, ttl, id (all text), and "joined inbox label". Nothing when it is free.
local function inline(text)
  return string.match(text, '^(%d+) ([xs]) (%d+) (%d+) (%S+) (%d+ %S+ .*)$')
end

-- Writes the folded form where a renewal or a leave must pass without memory: behind a command that the server lets
-- through, it lets the rest through too.
local function put(one, text)
  local answer = redis.pcall('SET', one, text, 'PX', LIFE)
  if answer.err then
    call('PEXPIRE', one, LIFE)
    call('SET', one, text, 'PX', LIFE)
  end
end
