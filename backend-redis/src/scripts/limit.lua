-- Reads the stored limit of a queue of permits.
--
-- KEYS  limit
-- ->    the limit | -1 if none is stored | the beginning of a text that is not a limit
-- Cost  constant.
local limit, foreign = stored_limit(KEYS[1])
return limit or foreign or -1
