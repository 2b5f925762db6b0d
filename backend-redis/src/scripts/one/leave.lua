-- A leave of a folded queue's node: TIME, GET, SET.
local now = time(ARGV[1])
local shape, observed = shaped(ARGV[2])
if shape ~= 'p' then
  local text = call('GET', KEYS[5])
  known = text
  local name = ARGV[4] .. ' ' .. ARGV[3] .. ' '
  if text and string.sub(text, 1, #name) == name then
    local expiry = tonumber(string.match(text, '^%d+', #name + 1))
    if expiry and expiry > now then
      put(KEYS[5], ARGV[4], 'KEEPTTL')
      return { 1, observed and tell(news(KEYS[1]), false) or 0, now }
    end
  end
end

