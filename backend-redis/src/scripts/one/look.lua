-- A look at a folded queue: it writes nothing.
local now = time(ARGV[1])
if shaped(ARGV[2]) ~= 'p' then
  local text = call('GET', KEYS[5])
  known = text
  if text and string.find(text, '^%d+$') then
    return { -1, 0, 0, now }
  end
  local seq, _, expiry, ttl = inline(text or '')
  expiry = tonumber(expiry)
  if seq and expiry > now and expiry <= now + tonumber(ttl) then
    return { expiry - now, 0, 0, now }
  end
end
