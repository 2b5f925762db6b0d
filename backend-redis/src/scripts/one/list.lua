-- A listing of a folded queue: nothing is written.
local now = time(ARGV[1])
if ARGV[2] ~= 'p' then
  local text = call('GET', KEYS[5])
  known = text
  if text then
    local seq, _, expiry, ttl, claim, rest = inline(text)
    expiry = tonumber(expiry)
    if seq and expiry > now and expiry <= now + tonumber(ttl) then
      if tonumber(seq) <= tonumber(ARGV[3]) then
        return { 0, now }
      end
      local joined, label = string.match(rest, '^(%d+) %S+ (.*)$')
      return { 0, now, { tonumber(seq), claim, 1, 1, tonumber(joined), label } }
    end
  end
end

