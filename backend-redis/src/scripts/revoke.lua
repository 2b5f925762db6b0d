-- Removes the node with this sequence number, of any client. Admits and notifies the next node, and
-- sends a re-check message to the owner, whose renewal then finds the node gone.
--
-- KEYS  seq exp node meta [one] [extra]
-- ARGV  now (empty: the server's) | shape | sequence
-- ->    { 1 if it existed, otherwise 0, flags, now }
-- Cost  O(log n), and the dropped and admitted nodes.
local now = time(ARGV[1])
local id = call('ZRANGEBYSCORE', KEYS[1], ARGV[3], ARGV[3], 'LIMIT', 0, 1)[1]
-- The node gets no message if it is admitted in this script.
local q = open(ARGV[2], 1, now, id and { [id] = true } or {}, false)
if not id then
  -- If the queue was folded, the node was admitted before.
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
