-- Returns for each queue whether it has a node that has not expired. It only reads.
--
-- KEYS  for each queue: seq exp one
-- ARGV  now (empty: the server's)
-- ->    for each queue: 1 or 0
-- Cost  O(queues log n).
local now = time(ARGV[1])
local answers = {}
for i = 1, #KEYS, 3 do
  local seq, _, expiry = inline(try('GET', KEYS[i + 2]) or '')
  local there = seq and tonumber(expiry) > now
    or (try('ZCARD', KEYS[i]) or 0) > 0 and (try('ZCOUNT', KEYS[i + 1], '(' .. num(now), '+inf') or 0) > 0
  answers[#answers + 1] = there and 1 or 0
end
return answers
