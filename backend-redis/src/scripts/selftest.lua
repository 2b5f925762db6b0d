-- Uses every command of the other scripts once, on scratch keys and the client's inbox. So a
-- missing permission is reported at connect, and not in the middle of an operation.
--
-- KEYS  a sorted set | a hash | a string, all of this client alone
-- ARGV  the client's inbox
-- ->    {} or { the command that failed, its error }
-- Cost  constant; no key remains.
local z, h, s = KEYS[1], KEYS[2], KEYS[3]
local steps = {
  -- First, because without it the keys of the other commands could not be removed.
  { 'DEL', z, h, s },
  { 'TIME' },
  { 'PEXPIRE', z, 1000 }, { 'PTTL', z }, { 'PERSIST', z },
  { 'ZADD', z, 1, 'a' }, { 'ZSCORE', z, 'a' }, { 'ZMSCORE', z, 'a' }, { 'ZSCAN', z, 0 }, { 'ZCARD', z }, { 'ZCOUNT', z, 0, 1 }, { 'ZRANK', z, 'a' },
  { 'ZRANGE', z, 0, 0 }, { 'ZRANGEBYSCORE', z, 0, 1 }, { 'ZREVRANGEBYSCORE', z, 1, 0 },
  { 'ZREM', z, 'b' }, { 'ZREMRANGEBYSCORE', z, 0, 0 },
  { 'HSET', h, 'a', '1' }, { 'HGET', h, 'a' }, { 'HMGET', h, 'a' }, { 'HSCAN', h, 0 }, { 'HLEN', h }, { 'HDEL', h, 'b' },
  { 'SET', s, '1', 'PX', 1000 }, { 'GET', s }, { 'EXISTS', s },
  { 'DEL', z, h, s },
  { 'PUBLISH', ARGV[1], '' },
}
for _, step in ipairs(steps) do
  local answer = redis.pcall(unpack(step))
  if type(answer) == 'table' and answer.err then
    redis.pcall('DEL', z, h, s)
    return { step[1], answer.err }
  end
end
return {}
