-- Renews cells of one client, each if its last write has this nonce.
--
-- KEYS  cells
-- ARGV  how long each lives from now on, ms | per cell: nonce
-- ->    per cell: 1 renewed | 0 the cell has another nonce, or does not exist
-- Cost  O(cells).
local answers = {}
for i, key in ipairs(KEYS) do
  answers[i] = nonce_of(key) == ARGV[i + 1] and call('PEXPIRE', key, ARGV[1]) or 0
end
return answers
