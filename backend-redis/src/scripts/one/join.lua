-- A join of a folded queue, or of an unused one: TIME, GET, SET.
local now = time(ARGV[1])
local shape, observed = shaped(ARGV[2])
if shape ~= 'p' then
  local one, id, claim, ttl = KEYS[5], ARGV[3], ARGV[4], tonumber(ARGV[6])
  local text = call('GET', one)
  known = text
  local last
  if not text then
    -- In most cases the hash alone shows an unfolded queue.
    last = call('EXISTS', KEYS[4]) == 0 and call('EXISTS', unpack(KEYS)) == 0 and 0
  elseif string.find(text, '^%d+$') then
    last = sound(text)
  else
    local seq, owner, expiry, given, held, rest = inline(text)
    expiry = tonumber(expiry)
    if not seq then
      last = nil
    elseif expiry <= now then
      last = tonumber(seq)
    elseif owner == id then
      call('SET', one, table.concat({ seq, id, num(now + ttl), given, held, rest }, ' '), 'PX', LIFE)
      return { 1, tonumber(seq), 0, 0, now }
    elseif ARGV[10] == '1' and (claim == 'x' or held == 'x') and expiry <= now + tonumber(given) then
      return { 0, 0, 0, 0, now }
    end
  end
  if last and last < TOP then
    local seq = math.max(now, last + 1)
    local name = num(seq)
    -- The time of the join, which usually is its sequence number.
    local joined = seq == now and name or num(now)
    local node = name .. ' ' .. id .. ' ' .. num(now + ttl) .. ' ' .. ARGV[6] .. ' ' .. claim .. ' ' .. joined
      .. ' ' .. ARGV[8] .. ' ' .. ARGV[9]
    call('SET', one, node, 'PX', LIFE)
    return { 1, seq, 0, observed and tell(news(KEYS[1]), true) or 0, now }
  end
end

