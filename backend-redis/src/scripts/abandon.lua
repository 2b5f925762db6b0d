-- Ends an attempt whose join has an unknown outcome: removes its node by id alone, and writes a
-- tombstone for a late join.
--
-- KEYS  seq exp node meta [one] [extra] left
-- ARGV  now (empty: the server's) | shape | id | how long the tombstone exists, us
-- ->    { 1 if the node existed, otherwise 0, flags, now }
-- Cost  O(log n), the dropped and admitted nodes, and the expired tombstones.
local now, id, stand = time(ARGV[1]), ARGV[3], tonumber(ARGV[4])
local left = KEYS[#KEYS]
call('ZCARD', left)
local q = open(ARGV[2], 1, now, { [id] = true }, false)
ease(q)
call('ZADD', left, now + stand, id)
call('ZREMRANGEBYSCORE', left, '-inf', num(now))
call('PEXPIRE', left, math.ceil(stand / 1000) + 1000)
q.left = math.max(q.left, now + stand)
local there = 0
if find(q, id) then
  drop(q, { id })
  admit(q)
  there = 1
end
return { there, close(q), now }
