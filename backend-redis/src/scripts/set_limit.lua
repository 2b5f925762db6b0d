-- Stores the limit of a queue of permits; admits and notifies the nodes that fit now. The admitted
-- stay.
--
-- KEYS  seq exp node meta limit
-- ARGV  now (empty: the server's) | limit
-- ->    { flags, now }
-- Cost  O(log n), and what it drops and admits.
local now = time(ARGV[1])
local q = open('p', 1, now, {}, false)
ease(q)
q.limit, q.foreign = tonumber(ARGV[2]), nil
call('SET', q.extra, num(q.limit))
admit(q)
return { close(q), now }
