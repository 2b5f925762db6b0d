-- Writes or deletes a cell if it is as expected and, for a held write, if the holder's node exists.
-- Notifies the watches. All checks come before the writes. Only the first write can fail, for lack
-- of memory, and nothing can fail after it.
--
-- KEYS  the cell, whose name is also its channel [seq exp node meta [one] [extra]: the node's queue]
-- ARGV  expected (a version | empty: no cell | *: any) | w: write, d: delete | nonce | value
--       how long it lives without a renewal, ms (empty: it stays); after "i": without a use [shape | id | sequence: the node] | (life: not used)
-- ->    { 0, 0 } the node is gone | { 1, flags, version } written
--       { 2, flags, 1 if it existed, otherwise 0 } deleted | { 3, 0 [, version, value] } refused
-- Cost  constant.
local GONE, WRITTEN, DELETED, REFUSED = 0, 1, 2, 3
local key, now = KEYS[1], time('')
local kind, life = string.match(ARGV[5], '^(i?)(%d+)$')

-- Whether the node is in its queue and has not expired. It only reads: a script that admits another
-- node first removes this one.
local function stands(shape, id, seq)
  if shaped(shape) ~= 'p' then
    local text = call('GET', KEYS[6])
    if text then
      local known_seq, known_id, expiry, ttl = inline(text)
      return known_seq == seq and known_id == id and math.min(tonumber(expiry), now + tonumber(ttl)) > now
    end
  end
  local known_seq, expiry = call('ZSCORE', KEYS[2], id), call('ZSCORE', KEYS[3], id)
  return known_seq and tonumber(known_seq) == tonumber(seq) and expiry and tonumber(expiry) > now
    and call('HGET', KEYS[4], id)
end

local value, version, number, idle = cell(key)
if KEYS[2] and not stands(ARGV[6], ARGV[7], ARGV[8]) then
  return { GONE, 0 }
end
if ARGV[1] ~= '*' and ARGV[1] ~= (version or '') then
  return version and { REFUSED, 0, version, value } or { REFUSED, 0 }
end
if ARGV[2] == 'd' then
  if not version then
    return { DELETED, 0, 0 }
  end
  call('DEL', key)
  return { DELETED, tell(key, false), 1 }
end
number = math.max((number or 0) + 1, now)
if number > TOP then
  refuse(key)
end
local written = num(number) .. '-' .. ARGV[3]
if kind == 'i' then
  call('HSET', key, 'v', ARGV[4], 'n', written, 'i', life)
else
  call('HSET', key, 'v', ARGV[4], 'n', written)
  if idle then
    call('HDEL', key, 'i')
  end
end
if life then
  call('PEXPIRE', key, life)
elseif version then
  -- The key may be an ephemeral cell of another client, with an expiry.
  call('PERSIST', key)
end
return { WRITTEN, tell(key, life), written }
