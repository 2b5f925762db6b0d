-- Drops expired nodes, like every operation, and so notifies the watches of the queue. Returns when
-- to look again. Watches call it, because no script runs when a node expires.
--
-- KEYS  seq exp node meta [one] [extra]
-- ARGV  now (empty: the server's) | shape
-- ->    { us until the next node may have expired | -1 without a node, 1 if the watches were notified, otherwise 0, flags, now }
-- Cost  O(log n), and the dropped and admitted nodes.
if call('EXISTS', unpack(KEYS)) == 0 then
  return { -1, 0, 0, now }
end
local q = open(ARGV[2], 1, now, {}, false)
ease(q)
local flags = close(q)
local ahead = q.count > 0 and call('ZRANGE', q.exp, 0, 0, 'WITHSCORES')[2]
local wait = -1
if ahead then
  wait = math.max(0, math.min(tonumber(ahead) - now, LONGEST))
end
return { wait, q.changed and flags < PUBLISH_REFUSED and 1 or 0, flags, now }
