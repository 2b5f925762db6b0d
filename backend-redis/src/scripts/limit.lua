-- Reads the stored limit of a queue of permits.
--
-- KEYS  limit
-- ->    the limit | -1 when none is stored | the beginning of the text that is no limit
-- Cost  constant.
local limit, foreign = stored_limit(KEYS[1])
return limit or foreign or -1
