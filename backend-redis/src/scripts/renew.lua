-- Renews nodes of one client in one or several queues, and returns the state of each: this is also
-- the waiters' re-check. For a queue without a node it only drops expired nodes, admits and
-- notifies.
--
-- KEYS  per queue: seq exp node meta [one] [extra]
-- ARGV  now (empty: the server's) | ttl, us | then per queue: shape | number of nodes | id, sequence, …
-- ->    { now, per queue: { flags, per node: -1 gone | 0 held | 1 + us until the node that it
--       waits for may have expired |
--       -2 - limit: it waits, and does not fit that limit | a text: it waits, and the stored limit is this text |
--       -2^40: it exists; the queue is under repair }
--       or the error text of a queue with a key of a foreign type: the other queues are renewed }
--       Any other refusal (for example, the server is a replica now) is an error of the whole call.
-- Cost  O(log n) per node, and the dropped and admitted nodes.
local now, ttl = time(ARGV[1]), tonumber(ARGV[2])
local result, key, arg = { now }, 1, 3

-- A folded queue: GET, SET. Returns nothing if the queue is not folded, or its text is outdated.
local function renew_one(one, nodes)
  local text = call('GET', one)
  known = text
  local seq, owner, expiry, given, claim, rest
  if text then
    seq, owner, expiry, given, claim, rest = inline(text)
    expiry = tonumber(expiry)
  end
  if not seq or expiry <= now or expiry > now + tonumber(given) then
    return nil
  end
  local answers = { 0 }
  for i, id in ipairs(nodes) do
    local ours = id == owner and nodes.seqs[i] == tonumber(seq)
    if ours then
      put(one, table.concat({ seq, id, num(now + ttl), given, claim, rest }, ' '), 'PX', LIFE)
    end
    answers[i + 1] = ours and 0 or -1
  end
  return answers
end

local function renew(shape, first, nodes)
  local answers = shaped(shape) ~= 'p' and renew_one(KEYS[first + 4], nodes)
  if answers then
    return answers
  end
  local q = open(shape, first, now, nodes.ids, false)
  ease(q)
  local kept = false
  for i, id in ipairs(nodes) do
    local seq = find(q, id)
    if seq and seq == nodes.seqs[i] then
      call('ZADD', q.exp, now + ttl, id)
      kept = true
    else
      nodes.seqs[i] = false
      -- The node was removed by hand, without a notification.
      q.changed = true
    end
  end
  if kept then
    keep(q, ttl)
  end
  answers = { 0 }
  for i, id in ipairs(nodes) do
    local wait = nodes.seqs[i] and stands(q, id, nodes.seqs[i]) or -1
    answers[i + 1] = wait == -2 and q.foreign or wait
  end
  answers[1] = close(q)
  return answers
end

-- The last argument is the keys' life.
while arg < #ARGV do
  local shape, count = ARGV[arg], tonumber(ARGV[arg + 1])
  local nodes = { ids = {}, seqs = {} }
  for i = 1, count do
    nodes[i] = ARGV[arg + 2 * i]
    nodes.seqs[i] = tonumber(ARGV[arg + 2 * i + 1])
    nodes.ids[nodes[i]] = true
  end
  local ok, answer = pcall(renew, shape, key, nodes)
  if not ok then
    -- A table since Redis 7.0, a text before.
    local words = type(answer) == 'table' and answer.err or tostring(answer)
    if not wrongtype(words) then
      error(answer, 0)
    end
    answer = words
  end
  result[#result + 1] = answer
  key = key + (shaped(shape) == 'rw' and 6 or 5)
  arg = arg + 2 + 2 * count
end
return result
