-- Lists a page of a queue in order. Like every operation, it drops and admits first. An expired
-- node that is not dropped yet looks like a dropped one.
--
-- KEYS  seq exp node meta [one] [extra]
-- ARGV  now (empty: the server's) | shape | after this sequence number | at most this number of nodes
-- ->    { flags, now, per node: { sequence, claim, weight, 1 if admitted, joined, time until its
--       expiry, the beginning of the label, and of the data } }
--       An entry with a number out of range is not a node. The page ends early with many bytes of labels and data.
-- Cost  O(log n + page), and the dropped and admitted nodes.
local q = open(ARGV[2], 1, now, {}, false)
ease(q)
local found = call('ZRANGEBYSCORE', q.seq, '(' .. ARGV[3], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[4])
local result, bytes = { 0, now }, 0
for i = 1, #found, 2 do
  local id, seq = found[i], sound(found[i + 1])
  local claim, w, _, joined, _, label, value = data(q, id)
  local left = (tonumber(call('ZSCORE', q.exp, id) or 0) or 0) - now
  if seq and claim and left > 0 and bytes < PAGE then
    local admitted = stands(q, id, seq) == 0 and 1 or 0
    label, value = string.sub(label, 1, 4200), string.sub(value, 1, 4200)
    bytes = bytes + #label + #value
    result[#result + 1] = { seq, claim, tonumber(w), admitted, tonumber(joined), left, label, value }
  end
end
result[1] = close(q)
return result
