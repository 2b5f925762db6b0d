-- A cell: a hash of "v", the value, and "n", its version: number-nonce. One that goes when nobody uses
-- it (CELL-IDLE) also has "i", after how many ms: the key expires then, and each use sets that anew.
-- The number is the server's time in microseconds or the last number plus one, whichever is higher;
-- the writing client makes the nonce, 64 random bits. Numbers rise from write to write. After a
-- deletion only the server's clock says so. If that was set back, the nonce still keeps a version from
-- coming twice.

-- The value, the version, its number, and the time to idle; nothing when there is no cell. Another hash
-- in its place is refused like a key of another type.
local function cell(key)
  local fields = call('HMGET', key, 'v', 'n', 'i')
  local value, version = fields[1], fields[2]
  if value and version then
    local digits = string.match(version, '^(%d+)%-%x+$')
    local number = #version <= 40 and sound(digits)
    if number and (not fields[3] or sound(fields[3])) then
      return value, version, number, fields[3]
    end
  elseif not value and not version and call('EXISTS', key) == 0 then
    return nil
  end
  error('WRONGTYPE [' .. key .. '] is no cell', 0)
end

-- The nonce of the write that made a cell what it is; nothing when there is no cell.
local function nonce_of(key)
  return string.match(try('HGET', key, 'n') or '', '%-(%x+)$')
end
