-- A join of a folded queue, or of one that was never used: TIME, GET, SET.
local now = time(ARGV[1])
if ARGV[2] ~= 'p' then
  local one, id, claim, ttl = KEYS[5], ARGV[3], ARGV[4], tonumber(ARGV[6])
  local text = call('GET', one)
  local last
  if not text then
    last = call('EXISTS', unpack(KEYS)) == 0 and 0
  else
    local seq, held, expiry, given, owner, rest = inline(text)
    expiry = tonumber(expiry)
    if not seq then
      last = tonumber(string.match(text, '^%d+$'))
    elseif expiry <= now then
      last = tonumber(seq)
    elseif owner == id then
      call('SET', one, table.concat({ seq, held, num(now + ttl), given, id, rest }, ' '), 'PX', LIFE)
      return { 1, tonumber(seq), 0, 0, now }
    elseif ARGV[10] == '1' and (claim == 'x' or held == 'x') and expiry <= now + tonumber(given) then
      return { 0, 0, 0, 0, now }
    end
  end
  if last then
    local seq = math.max(now, last + 1)
    local head = string.format('%.0f %s %.0f %s %s %.0f ', seq, claim, now + ttl, ARGV[6], id, now)
    call('SET', one, head .. ARGV[8] .. ' ' .. ARGV[9], 'PX', LIFE)
    return { 1, seq, 0, 0, now }
  end
end

