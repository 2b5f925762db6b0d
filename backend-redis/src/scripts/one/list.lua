-- A listing of a folded queue, or of an unused one: it writes nothing.
local now = time(ARGV[1])
local shape, observed = shaped(ARGV[2])
local text
if shape ~= 'p' then
  text = call('GET', KEYS[5])
  known = text
  if text then
    if string.find(text, '^%d+$') then
      return { 0, now }
    end
    local seq, _, expiry, ttl, claim, rest = inline(text)
    expiry = tonumber(expiry)
    if seq and expiry > now and expiry <= now + tonumber(ttl) then
      if tonumber(seq) <= tonumber(ARGV[3]) then
        return { 0, now }
      end
      local joined, label, value = string.match(rest, '^(%d+) %S+ (.*)$')
      label, value = labelled(label)
      label, value = string.sub(label, 1, 4200), string.sub(value, 1, 4200)
      return { 0, now, { tonumber(seq), claim, 1, 1, tonumber(joined), expiry - now, label, value } }
    end
  end
end
if not text and call('EXISTS', unpack(KEYS)) == 0 then
  return { 0, now }
end

