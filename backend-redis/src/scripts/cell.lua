-- A cell: a hash of "v", the value, and "n", its version: number-nonce. An idle cell (CELL-IDLE)
-- also has "i", its time to idle in ms: the key expires after this time, and each use sets the
-- expiry again. The number is the server's time in microseconds or the last number plus one,
-- whichever is higher. The writing client makes the nonce, 64 random bits. Numbers rise from write
-- to write. After a deletion only the server's clock makes them rise. If the clock was set back,
-- the nonce still prevents a version from occurring twice.

-- Returns the value, the version, its number, and the time to idle; nothing if the cell does not
-- exist. Another hash in its place is refused like a key of another type.
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

-- Returns the nonce of a cell's last write; nothing if the cell does not exist.
local function nonce_of(key)
  return string.match(try('HGET', key, 'n') or '', '%-(%x+)$')
end
