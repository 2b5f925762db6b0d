-- Removes one node, named by id and sequence number, and nothing newer; admits and notifies the
-- next.
--
-- KEYS  seq exp node meta [one] [extra]
-- ARGV  now (empty: the server's) | shape | id | sequence
-- ->    { 1 if it existed, otherwise 0, flags, now }
-- Cost  O(log n), and the dropped and admitted nodes.
local id = ARGV[3]
local q = open(ARGV[2], 1, now, { [id] = true }, false)
local there = 0
local seq = find(q, id)
if seq and seq == tonumber(ARGV[4]) then
  drop(q, { id })
  admit(q)
  there = 1
else
  ease(q)
end
return { there, close(q), now }
