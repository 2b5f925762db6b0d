-- Lists a page of a queue as list.lua, on a server that refuses writes: it writes nothing. Such a server admits no
-- waiter, so a node is admitted if it was notified, or if no node is before it.
--
-- KEYS, ARGV and answer as list.lua.
-- Cost  O(log n + page), and at most LOOK expired nodes.
local front = sound(call('HGET', KEYS[4], 'front')) or 0
local first = call('ZRANGE', KEYS[1], 0, 0)[1]
local result, full, after, bytes = { 0, now }, 2 + tonumber(ARGV[4]), ARGV[3], 0
for _ = 1, LOOK / BATCH do
  local found = call('ZRANGEBYSCORE', KEYS[1], '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, BATCH)
  for i = 1, #found, 2 do
    local id, seq = found[i], sound(found[i + 1])
    local claim, w, _, joined, _, label, value = parse(call('HGET', KEYS[3], id))
    local left = (sound(call('ZSCORE', KEYS[2], id)) or 0) - now
    if seq and claim and left > 0 and #result < full and bytes < PAGE then
      local admitted = (seq <= front or shape ~= 'p' and id == first) and 1 or 0
      label, value = string.sub(label, 1, 4200), string.sub(value, 1, 4200)
      bytes = bytes + #label + #value
      result[#result + 1] = { seq, claim, tonumber(w), admitted, tonumber(joined), left, label, value }
    end
    after = found[i + 1]
  end
  if #found < 2 * BATCH or #result == full or bytes >= PAGE then
    break
  end
end
return result
