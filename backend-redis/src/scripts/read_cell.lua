-- Reads a cell. This is a use of the cell.
--
-- KEYS  the cell
-- ->    {} | { version, value [, time to idle, ms] }
-- Cost  constant.
local value, version, _, idle = cell(KEYS[1])
if idle then
  call('PEXPIRE', KEYS[1], idle)
end
return version and { version, value, idle or nil } or {}
