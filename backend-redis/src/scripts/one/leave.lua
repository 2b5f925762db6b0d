-- A leave of a folded queue's node: TIME, GET, SET.
local now = time(ARGV[1])
if ARGV[2] ~= 'p' then
  local text = call('GET', KEYS[5])
  known = text
  local name = ARGV[4] .. ' ' .. ARGV[3] .. ' '
  if text and string.sub(text, 1, #name) == name then
    local expiry = tonumber(string.match(text, '^%d+', #name + 1))
    if expiry and expiry > now then
      put(KEYS[5], ARGV[4], 'KEEPTTL')
      return { 1, 0, now }
    end
  end
end

