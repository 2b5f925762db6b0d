-- Deletes cells of one client, each if its last write has this nonce, and notifies their watches.
--
-- KEYS  cells, whose names are also their channels
-- ARGV  per cell: nonce
-- ->    { flags }
-- Cost  O(cells).
local flags = 0
for i, key in ipairs(KEYS) do
  if nonce_of(key) == ARGV[i] then
    call('DEL', key)
    flags = math.max(flags, tell(key, false))
  end
end
return { flags }
