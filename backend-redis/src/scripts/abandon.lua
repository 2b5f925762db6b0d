-- Ends an attempt whose join has an unknown outcome: removes its node by id alone, and writes a
-- tombstone that a late join of it meets.
--
-- KEYS  seq exp node meta [one] [extra] left
-- ARGV  now (empty: the server's) | shape | id | how long the tombstone stands, us
-- ->    { 1 when a node was there, else 0, flags, now }
-- Cost  O(log n), what it drops and admits, and the tombstones that have run out.
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
