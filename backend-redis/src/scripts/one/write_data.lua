-- New data of a folded queue's node: TIME, GET, SET.
local now = time(ARGV[1])
local shape, observed = shaped(ARGV[2])
if shape ~= 'p' then
  local text = call('GET', KEYS[5])
  known = text
  local seq, owner, expiry, ttl = inline(text or '')
  expiry = tonumber(expiry)
  if seq == ARGV[4] and owner == ARGV[3] and expiry > now and expiry <= now + tonumber(ttl) then
    call('SET', KEYS[5], labelled(text) .. (ARGV[5] ~= '' and '\0' .. ARGV[5] or ''), 'KEEPTTL')
    return { 1, observed and tell(news(KEYS[1]), true) or 0, now }
  end
end
