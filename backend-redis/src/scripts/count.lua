-- Changes a count in one step, with the same result as core's Count::decide
-- (decide/count/request.rs). Numbers are texts here, because they do not fit into Lua's numbers: up
-- to 20 digits. Notifies the watches. All checks come before the writes, as in write_cell.lua.
--
-- KEYS  the cell, whose name is also its channel
-- ARGV  a: add | s: swap | d: down, not below 0 | the number to add or to subtract, or the expected
--       number | the new number | writer: 16 hex digits | the operation's number | the number after that
--       the number of writes up to which a missing record is a proof (empty: it is never a proof)
--       1 when another request of this operation may arrive | the initial number of the count (empty: 0)
--       nonce | how long the cell lives without a use, ms (empty: it stays)
-- ->    { 1, flags, writes, result } applied | { 2, flags, writes } refused | { 3, 0, writes } untold
--       { 4, 0, its initial number, or empty } another count | { 5, 0 } not a count
-- Cost  O(writers that the count remembers), 48 at most.
local APPLIED, REFUSED, UNTOLD, OTHER, FOREIGN = 1, 2, 3, 4, 5
local WRITERS = 48
local I64, MINUS_I64 = '9223372036854775807', '9223372036854775808'
local U64, U32 = '18446744073709551615', '4294967295'
local BASE = 10000000000
local RECORD = ' ' .. string.rep('%x', 16) .. ':%d+:%-?%d+'
local LONG = ':%-?' .. string.rep('%d', 19)
local key, now, life = KEYS[1], time(''), ARGV[11] ~= '' and ARGV[11]
local change, number, becomes, writer, own, fence = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local till, doubted, initial = ARGV[7], ARGV[8] == '1', ARGV[9]

-- Whether the digits, without a leading zero, are a number up to this one.
local function fits(digits, most)
  return #digits < #most or #digits == #most and digits <= most
end

local function unsigned(digits, most)
  return string.find(digits, '^0.') == nil and fits(digits, most)
end

local function signed(text)
  local magnitude = string.match(text, '^%-(.+)$')
  if magnitude then
    return magnitude ~= '0' and unsigned(magnitude, MINUS_I64)
  end
  return unsigned(text, I64)
end

-- A number in two parts, each exact.
local function parts(text)
  local minus, digits = string.match(text, '^(%-?)(%d+)$')
  local sign = minus == '' and 1 or -1
  return sign * (tonumber(string.sub(digits, 1, -11)) or 0), sign * tonumber(string.sub(digits, -10))
end

local function sum(one, other)
  if #one < 16 and #other < 16 then
    return num(tonumber(one) + tonumber(other))
  end
  local high, low = parts(one)
  local more_high, more_low = parts(other)
  high, low = high + more_high, low + more_low
  -- Both parts get the sign of the whole, and the low one less than ten digits more.
  local sign = (high > 0 or high == 0 and low >= 0) and 1 or -1
  -- A negative zero plus zero is zero.
  high, low = sign * high + 0, sign * low + 0
  if low < 0 then
    high, low = high - 1, low + BASE
  elseif low >= BASE then
    high, low = high + 1, low - BASE
  end
  local digits = high > 0 and num(high) .. string.format('%010.0f', low) or num(low)
  return sign < 0 and digits ~= '0' and '-' .. digits or digits
end

-- Returns the value, the number of writes, the initial number, the records and their number;
-- nothing for another text.
local function count(text)
  local value, writes, records = string.match(text, '^(%-?%d+) (%d+)(.*)$')
  if not value or not signed(value) or not unsigned(writes, U64) then
    return nil
  end
  local began, behind = string.match(records, '^ of (%d+)(.*)$')
  if began then
    if not unsigned(began, U32) then
      return nil
    end
    records = behind
  end
  local rest, known = string.gsub(records, RECORD, '')
  -- Refuses upper case, a leading zero in a record, and a negative zero.
  if rest ~= '' or known > WRITERS or string.find(records, '%u') or string.find(records, ':%-?0%d')
    or string.find(records, ':-0', 1, true) then
    return nil
  end
  -- A number with this many digits may be too high.
  if string.find(records, LONG) then
    for its, result in string.gmatch(records, ':(%d+):(%-?%d+)') do
      if not fits(its, U64) or not signed(result) then
        return nil
      end
    end
  end
  return value, writes, began or '', records, known
end

local text, version, last, idle = cell(key)
local value, writes, began, records, known = initial == '' and '0' or initial, '0', initial, '', 0
if text then
  value, writes, began, records, known = count(text)
  if not value then
    return { FOREIGN, 0 }
  end
  if began ~= initial then
    return { OTHER, 0, began }
  end
end

-- A change that writes nothing is a use of the cell too.
local function unwritten(answer)
  if idle then
    call('PEXPIRE', key, idle)
  end
  return answer
end

-- Returns the writer's record, if it exists, and the list without it.
local mark, its, result = ' ' .. writer .. ':', nil, nil
local at = string.find(records, mark, 1, true)
while at do
  local number_found, result_found, behind = string.match(records, '^(%d+):(%-?%d+)()', at + #mark)
  its, result = its or number_found, result or result_found
  records, known = string.sub(records, 1, at - 1) .. string.sub(records, behind), known - 1
  at = string.find(records, mark, 1, true)
end
if its == own then
  return unwritten({ APPLIED, 0, writes, result })
end
if its and not fits(its, own) then
  return unwritten({ REFUSED, 0, writes })
end
if not its and known == WRITERS and not (till ~= '' and fits(writes, till)) then
  return unwritten({ UNTOLD, 0, writes })
end

-- The result is the new value, or lower, if the value stops at 0.
local next_value, outcome
if change == 'a' then
  next_value = sum(value, number)
  next_value = signed(next_value) and next_value
elseif change == 's' then
  next_value = value == number and becomes
elseif value ~= '0' and string.sub(value, 1, 1) ~= '-' then
  outcome = sum(value, '-' .. number)
  next_value = string.sub(outcome, 1, 1) == '-' and '0' or outcome
end
outcome = outcome or next_value or value
if not next_value and not doubted then
  return unwritten({ REFUSED, 0, writes })
end
writes = sum(writes, '1')
if not fits(writes, U64) then
  writes = U64
end
if known == WRITERS then
  records = string.match(records, '^(.*) ')
end
local to = next_value or value
local new = (last or 0) + 1
new = new > now and new or now
if new > TOP then
  refuse(key)
end
text = to .. ' ' .. writes .. (began ~= '' and ' of ' .. began or '')
  .. mark .. (next_value and own or fence) .. ':' .. outcome .. records
local written = num(new) .. '-' .. ARGV[10]
if life then
  call('HSET', key, 'v', text, 'n', written, 'i', life)
  call('PEXPIRE', key, life)
else
  call('HSET', key, 'v', text, 'n', written)
  if idle then
    call('HDEL', key, 'i')
  end
  if version then
    call('PERSIST', key)
  end
end
local flags = tell(key, life)
if next_value then
  return { APPLIED, flags, writes, outcome }
end
return { REFUSED, flags, writes }
