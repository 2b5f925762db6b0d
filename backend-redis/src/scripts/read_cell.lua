-- Reads a cell.
--
-- KEYS  the cell
-- ->    {} | { version, value }
-- Cost  constant.
local value, version = cell(KEYS[1])
return version and { version, value } or {}
