-- Renews nodes of one client in one or several queues, and answers where each stands: the waiters' re-check.
-- With no node at all it only drops what has expired, admits and tells.
--
-- KEYS  per queue: seq exp node meta [extra]
-- ARGV  now (empty: the server's) | ttl, us | then per queue: shape | number of nodes | id, sequence, …
-- ->    { now, per queue: { flags, per node: -1 gone | 0 held | 1 + us until what it waits for may have expired |
--       -2 - limit: it waits, and does not fit that limit }
--       or the text of the error that this queue (a key of a foreign type) has: it costs the others nothing }
-- Cost  O(log n) per node, and what it drops and admits.
local now, ttl = time(ARGV[1]), tonumber(ARGV[2])
local result, key, arg = { now }, 1, 3

local function renew(shape, first, nodes)
  local q = open(shape, first, now, nodes.ids, false)
  ease(q)
  local kept = false
  for i, id in ipairs(nodes) do
    local seq = find(q, id)
    if seq and seq == nodes.seqs[i] then
      call('ZADD', q.exp, num(now + ttl), id)
      kept = true
    else
      nodes.seqs[i] = false
    end
  end
  if kept then
    keep(q, ttl)
  end
  local answers = { 0 }
  for i, id in ipairs(nodes) do
    answers[i + 1] = nodes.seqs[i] and stands(q, id, nodes.seqs[i]) or -1
  end
  answers[1] = close(q)
  return answers
end

while arg <= #ARGV do
  local shape, count = ARGV[arg], tonumber(ARGV[arg + 1])
  local nodes = { ids = {}, seqs = {} }
  for i = 1, count do
    nodes[i] = ARGV[arg + 2 * i]
    nodes.seqs[i] = tonumber(ARGV[arg + 2 * i + 1])
    nodes.ids[nodes[i]] = true
  end
  local ok, answer = pcall(renew, shape, key, nodes)
  if not ok then
    answer = type(answer) == 'table' and answer.err or tostring(answer)
  end
  result[#result + 1] = answer
  key = key + (shape == 'x' and 4 or 5)
  arg = arg + 2 + 2 * count
end
return result
