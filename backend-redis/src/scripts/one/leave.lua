-- A leave of a folded queue's node: TIME, GET, SET.
local now = time(ARGV[1])
if ARGV[2] ~= 'p' then
  local text = call('GET', KEYS[5])
  if text then
    local seq, _, expiry, _, owner = inline(text)
    if owner == ARGV[3] and seq == ARGV[4] and tonumber(expiry) > now then
      put(KEYS[5], seq)
      return { 1, 0, now }
    end
  end
end

