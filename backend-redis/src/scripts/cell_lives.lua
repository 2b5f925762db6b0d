-- Returns how long cells stay, by their last writes, for a listing. This is not a use of the cells.
--
-- KEYS  cells
-- ->    per cell: its time to idle, ms | 0 it goes with a lease | -1 it stays | -2 it does not exist
-- Cost  O(cells).
local answers = {}
for i, key in ipairs(KEYS) do
  local fields, ends = try('HMGET', key, 'v', 'n', 'i'), call('PTTL', key)
  if not (fields and fields[1] and fields[2]) or ends == -2 then
    answers[i] = -2
  elseif fields[3] then
    answers[i] = tonumber(sound(fields[3]) or -2)
  else
    answers[i] = ends == -1 and -1 or 0
  end
end
return answers
