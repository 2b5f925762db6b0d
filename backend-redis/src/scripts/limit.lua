-- Reads the stored limit of a queue of permits. What is no number is none, as to the other scripts.
--
-- KEYS  limit
-- ->    the limit | -1 when none is stored
-- Cost  constant.
return tonumber(redis.call('GET', KEYS[1]) or nil) or -1
