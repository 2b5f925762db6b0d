-- Stores the limit of a queue of permits, whatever is stored or over a known one; admits and notifies
-- the nodes that fit now. The admitted stay.
--
-- KEYS  seq exp node meta limit
-- ARGV  now (empty: the server's) | limit | the limit that it replaces (-1: none; empty: whatever it is)
-- ->    { 1 when it was stored, else 0, flags, now }
-- Cost  O(log n), and what it drops and admits.
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
