-- Removes the node at a sequence number, whichever client owns it; admits and notifies the next,
-- and notifies the owner to recheck, which finds the node gone.
--
-- KEYS  seq exp node meta [one] [extra]
-- ARGV  now (empty: the server's) | shape | sequence
-- ->    { 1 when it was there, else 0, flags, now }
-- Cost  O(log n), and what it drops and admits.
local now = time(ARGV[1])
local id = call('ZRANGEBYSCORE', KEYS[1], ARGV[3], ARGV[3], 'LIMIT', 0, 1)[1]
-- No message for its own admission, should it come just now.
local q = open(ARGV[2], 1, now, id and { [id] = true } or {}, false)
if not id then
  -- The queue may have been folded: then the node was admitted before.
  id = call('ZRANGEBYSCORE', q.seq, ARGV[3], ARGV[3], 'LIMIT', 0, 1)[1]
end
local there = 0
local seq = id and find(q, id)
if seq then
  q.callers = {}
  notify(q, id, -seq)
  drop(q, { id })
  admit(q)
  there = 1
else
  ease(q)
end
return { there, close(q), now }
