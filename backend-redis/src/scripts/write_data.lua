-- Replaces the data of an existing node, named by id and sequence number. It creates no node, and
-- renews none.
--
-- KEYS  seq exp node meta [one] [extra]
-- ARGV  now (empty: the server's) | shape | id | sequence | data
-- ->    { 1 if the node exists, otherwise 0, flags, now }
--       A server without memory may refuse it, before anything is written.
-- Cost  O(log n), and the dropped and admitted nodes.
local id, value = ARGV[3], ARGV[5]

-- The text of a node with this data after the label.
local function with_data(text)
  return labelled(text) .. (value ~= '' and '\0' .. value or '')
end

local q = open(ARGV[2], 1, now, {}, false)
local there = 0
local seq = find(q, id)
local text = seq and seq == tonumber(ARGV[4]) and call('HGET', q.node, id)
if parse(text) then
  call('HSET', q.node, id, with_data(text))
  q.changed = true
  there = 1
else
  ease(q)
end
return { there, close(q), now }
