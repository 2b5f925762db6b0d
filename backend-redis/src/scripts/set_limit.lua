-- Stores the limit of a queue of permits, over any limit or only over a known one. Admits and
-- notifies the nodes that fit now. Admitted nodes stay admitted.
--
-- KEYS  seq exp node meta limit
-- ARGV  now (empty: the server's) | limit | the limit that it replaces (-1: none; empty: any)
-- ->    { 1 if it was stored, otherwise 0, flags, now }
-- Cost  O(log n), and the dropped and admitted nodes.
local now = time(ARGV[1])
if ARGV[3] ~= '' then
  local stored, foreign = stored_limit(KEYS[5])
  if foreign or (stored or -1) ~= tonumber(ARGV[3]) then
    return { 0, 0, now }
  end
end
local q = open('p', 1, now, {}, false)
ease(q)
q.limit, q.foreign = tonumber(ARGV[2]), nil
call('SET', q.extra, num(q.limit))
admit(q)
return { 1, close(q), now }
