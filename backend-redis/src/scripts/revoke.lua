-- Removes the node at a sequence number, whoever has it; admits and tells whom that lets in, and tells its owner to look
-- again, so that it finds it gone.
--
-- KEYS  seq exp node meta [one] [extra]
-- ARGV  now (empty: the server's) | shape | sequence
-- ->    { 1 when it was there, else 0, flags, now }
-- Cost  O(log n), and what it drops and admits.
local now = time(ARGV[1])
local id = call('ZRANGEBYSCORE', KEYS[1], ARGV[3], ARGV[3], 'LIMIT', 0, 1)[1]
-- Its own admission, should it come only now, is not worth a message.
local q = open(ARGV[2], 1, now, id and { [id] = true } or {}, false)
if not id then
  -- It may have been folded: then it was admitted before.
  id = call('ZRANGEBYSCORE', q.seq, ARGV[3], ARGV[3], 'LIMIT', 0, 1)[1]
end
local there = 0
local seq = id and find(q, id)
if seq then
  q.callers = {}
  tell(q, id, -seq)
  drop(q, { id })
  admit(q)
  there = 1
else
  ease(q)
end
return { there, close(q), now }
