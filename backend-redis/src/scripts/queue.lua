-- What all scripts share: one queue, and the order of work of every operation: drop what has expired, act, admit.
--
-- The layout of a queue (all keys in one hash slot), when it is not folded (one.lua):
--   seq   sorted set   node id -> sequence number          the order of the queue
--   exp   sorted set   node id -> expiry, microseconds     what has run out
--   node  hash         node id -> "claim weight ttl joined inbox label"
--   meta  hash         last: the last sequence number; front: the highest that was admitted and told;
--                      sum: permits taken by the admitted; seen: the server's time at the last call; more: some of
--                      the admitted are still to be told; alive: how long the other keys live; kept: when this hash's
--                      own expiry was set; left: until when there are tombstones; rw: writers: how many there are
--   one   x, rw: the folded form; p: absent
--   extra rw: sorted set of the writers, id -> sequence number; p: the stored limit, a string; x: absent
--   left  sorted set   id of an abandoned attempt -> until when a late join of it is refused
--
-- Shapes: x (exclusive claims only), rw (exclusive and shared), p (permits).
-- No operation loops over the queue: it looks at the nodes that it drops and at those it admits, at most BATCH of
-- each, and says "more" when there may be others. Rare exceptions read it once, in repair() and what follows that, and clamp().

local BATCH, UP_TO_BATCH = 256, '256'
local MORE, UNTOLD = 1, 2
-- How long a tombstone stands, in microseconds: that of the clients.
local STAND = 600 * 1000000

-- A number as text, which may be known: to write one out takes longer than many a command, and the server does it with each
-- number that a command is given.
local function written(q, n)
  return q.text[n] or num(n)
end

-- A node's data: claim ('x', 's' or 'p'), weight, ttl, joined, inbox, label. Nothing for what is no node of ours.
local function data(q, id)
  local text = call('HGET', q.node, id)
  if not text then
    return nil
  end
  return string.match(text, '^([xsp]) (%d+) (%d+) (%d+) (%S+) (.*)$')
end

local function weight(q, id)
  local _, w = data(q, id)
  return tonumber(w or 0)
end

-- Removes nodes wherever they stand; at most BATCH at once, since unpack() has a limit.
local function drop(q, ids)
  if q.shape == 'p' then
    for _, id in ipairs(ids) do
      local s = call('ZSCORE', q.seq, id)
      if s and tonumber(s) <= q.front then
        q.sum = q.sum - weight(q, id)
      end
    end
  end
  q.count = q.count - call('ZREM', q.seq, unpack(ids))
  call('ZREM', q.exp, unpack(ids))
  call('HDEL', q.node, unpack(ids))
  if q.shape == 'rw' then
    q.writers = q.writers - call('ZREM', q.extra, unpack(ids))
  end
end

-- Somebody else had a hand in the keys (an operator's DEL or ZREM, an eviction, a foreign member): what is not in all
-- three parts goes, and what is derived from them is made anew. Reads the whole queue, once per such event.
-- With "meta" gone, "front" and "sum" begin at nothing, and admit() goes over the queue once more: who is in by the rule
-- is let in again, and told again, which changes nothing for it. Only permits above a limit that was lowered since are not:
-- they wait, and their owner's renewal takes that for a revocation.
local function repair(q)
  local whole = {}
  q.count = 0
  for _, id in ipairs(call('ZRANGE', q.seq, 0, -1)) do
    if data(q, id) and call('ZSCORE', q.exp, id) then
      whole[id] = true
      q.count = q.count + 1
      -- Known, unless "meta" is gone: whoever joins next comes behind all.
      q.last = math.max(q.last, tonumber(call('ZSCORE', q.seq, id)))
    else
      call('ZREM', q.seq, id)
    end
  end
  for _, id in ipairs(call('ZRANGE', q.exp, 0, -1)) do
    if not whole[id] then
      call('ZREM', q.exp, id)
    end
  end
  for _, id in ipairs(call('HKEYS', q.node)) do
    if not whole[id] then
      call('HDEL', q.node, id)
    end
  end
  if q.shape == 'rw' then
    call('DEL', q.extra)
    q.writers = 0
    for id in pairs(whole) do
      if data(q, id) == 'x' then
        q.writers = q.writers + call('ZADD', q.extra, call('ZSCORE', q.seq, id), id)
      end
    end
    call('PEXPIRE', q.extra, math.max(1, call('PTTL', q.exp)))
  elseif q.shape == 'p' then
    q.sum = 0
    for id in pairs(whole) do
      if tonumber(call('ZSCORE', q.seq, id)) <= q.front then
        q.sum = q.sum + weight(q, id)
      end
    end
  end
end

-- The server's clock was stepped back: nobody may be delayed beyond its own TTL. Reads the whole queue, once per step.
local function clamp(q)
  local late = call('ZRANGEBYSCORE', q.exp, '(' .. num(q.now), '+inf', 'WITHSCORES')
  for i = 1, #late, 2 do
    local _, _, ttl = data(q, late[i])
    if ttl and tonumber(late[i + 1]) > q.now + tonumber(ttl) then
      call('ZADD', q.exp, q.now + tonumber(ttl), late[i])
    end
  end
end

-- Remembers that a node is to be told of its admission, unless it is the caller's own. With a negated sequence
-- number it is told to look again at once: its renewal then says why.
local function tell(q, id, seq)
  if q.callers[id] then
    return
  end
  local text = call('HGET', q.node, id)
  local inbox = text and string.match(text, '^[xsp] %d+ %d+ %d+ (%S+) ')
  if inbox then
    local told = q.told[inbox] or {}
    told[#told + 1] = id .. ' ' .. written(q, seq)
    q.told[inbox] = told
  end
end

-- rw: the sequence number of the first writer, or nil. A writer that is no node any more is an operator's doing.
local function first_writer(q)
  local first = call('ZRANGE', q.extra, 0, 0, 'WITHSCORES')
  if first[1] and not call('ZSCORE', q.seq, first[1]) then
    repair(q)
    first = call('ZRANGE', q.extra, 0, 0, 'WITHSCORES')
  end
  return tonumber(first[2] or nil), first[1]
end

-- Admits, in order, whom the rule lets in over the whole queue, and remembers whom to tell. The admitted are always a
-- prefix of the queue. Only permits are stored (front, sum); else "front" says how far the wake-ups were sent.
-- Needed after whatever removes a node: a join admits itself.
-- A first waiter that the limit will never let in is remembered too: it must give up, for those behind it.
local function admit(q)
  q.more, q.unfit = false, nil
  if q.count == 0 then
    return
  end
  if q.shape == 'x' then
    local first = call('ZRANGE', q.seq, '0', '0', 'WITHSCORES')
    if first[1] and tonumber(first[2]) > q.front then
      q.front = tonumber(first[2])
      q.text[q.front] = first[2]
      tell(q, first[1], q.front)
    end
  elseif q.shape == 'rw' then
    local writer, id = first_writer(q)
    local upto = '+inf'
    if writer then
      upto = (call('ZRANK', q.seq, id) == 0 and '' or '(') .. num(writer)
    end
    local next = call('ZRANGEBYSCORE', q.seq, '(' .. num(q.front), upto, 'WITHSCORES', 'LIMIT', 0, BATCH)
    for i = 1, #next, 2 do
      q.front = tonumber(next[i + 1])
      tell(q, next[i], q.front)
    end
    q.more = #next == 2 * BATCH
  else
    for _ = 1, BATCH do
      local next = call('ZRANGEBYSCORE', q.seq, '(' .. num(q.front), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      local w = next[1] and weight(q, next[1])
      if not w or q.sum + w > (q.limit or 0) then
        if w and w > (q.limit or 0) then
          q.unfit = { next[1], -tonumber(next[2]) }
        end
        return
      end
      q.sum = q.sum + w
      q.front = tonumber(next[2])
      tell(q, next[1], q.front)
    end
    q.more = true
  end
end

-- A write that the server lets through when it is out of memory.
local function ease(q)
  call('PEXPIRE', q.meta, LIFE)
end

-- Lets the keys live a while longer than the node that is written, and never less than before.
local function keep(q, ttl, anew)
  local life = math.ceil(ttl / 1000) + 1000
  if anew then
    q.alive = 0
  end
  if q.now + 1000 * life > q.alive then
    q.alive = q.now + 2000 * life
    local long = num(2 * life)
    call('PEXPIRE', q.seq, long)
    call('PEXPIRE', q.exp, long)
    call('PEXPIRE', q.node, long)
    if q.shape == 'rw' then
      call('PEXPIRE', q.extra, long)
    end
  end
end

-- Writes the folded form out: its node, unless that has expired, and the last sequence number.
local function unfold(q, text)
  local seq, id, expiry, ttl, claim, rest = inline(text)
  q.last = math.max(q.last, tonumber(seq or string.match(text, '^%d+$')) or 0)
  -- The server's clock may have been stepped back, as in clamp().
  expiry = seq and math.min(tonumber(expiry), q.now + tonumber(ttl))
  if seq and expiry > q.now then
    call('ZADD', q.seq, seq, id)
    call('ZADD', q.exp, expiry, id)
    call('HSET', q.node, id, table.concat({ claim, 1, ttl, rest }, ' '))
    if q.shape == 'rw' and claim == 'x' then
      q.writers = q.writers + call('ZADD', q.extra, seq, id)
    end
    keep(q, tonumber(ttl), true)
    -- It is admitted, and knows it.
    q.front = math.max(q.front, tonumber(seq))
    q.count = q.count + 1
  end
  call('DEL', q.one)
end

-- Opens the queue whose keys begin at KEYS[first]: reads it, drops what has expired, admits. `callers` are the ids
-- that the operation itself answers. With `grow` the operation needs memory and is refused when there is
-- none; else the first write must be a command that the server lets through without memory, and so the whole script
-- passes: ease() is one.
local function open(shape, first, now, callers, grow)
  local t = num(now)
  local q = {
    shape = shape, now = now, t = t, text = { [now] = t }, callers = callers, told = {}, more = false, crowded = false,
    seq = KEYS[first], exp = KEYS[first + 1], node = KEYS[first + 2], meta = KEYS[first + 3],
  }
  if shape == 'p' then
    q.extra = KEYS[first + 4]
  else
    q.one, q.extra = KEYS[first + 4], KEYS[first + 5]
  end
  -- Reads come first: a key of a foreign type ends the script before anything is written.
  q.count = call('ZCARD', q.seq)
  local changed = q.count ~= call('ZCARD', q.exp) or q.count ~= call('HLEN', q.node)
  local meta = call('HMGET', q.meta, 'last', 'front', 'sum', 'seen', 'more', 'alive', 'kept', 'left', 'writers')
  q.last, q.front = tonumber(meta[1]) or 0, tonumber(meta[2]) or 0
  q.sum, q.seen = tonumber(meta[3]) or 0, tonumber(meta[4]) or 0
  q.untold, q.alive = meta[5] == '1', tonumber(meta[6]) or 0
  q.kept, q.left = tonumber(meta[7]) or 0, tonumber(meta[8]) or 0
  q.writers = tonumber(meta[9]) or 0
  q.read = { last = q.last, front = q.front, sum = q.sum, alive = q.alive, left = q.left, writers = q.writers }
  if q.count == 0 then
    -- The nodes' keys may have run out by themselves, all who held being dead: nobody was dropped then.
    q.sum = 0
  end
  local lost = not meta[1]
  changed = changed or lost and q.count > 0
  local folded
  if shape == 'p' then
    q.limit = tonumber(call('GET', q.extra))
  else
    folded = known
    if folded == nil then
      folded = call('GET', q.one)
    end
    changed = changed or shape == 'rw' and call('ZCARD', q.extra) ~= q.writers
  end
  -- Never used, or its hash is gone: unknown until when there are tombstones. A join looks; who cannot takes it that one was
  -- left just now, so that the next join looks.
  q.unknown = lost and not folded
  if q.unknown and not grow then
    q.left = now + STAND
  end
  local dead = q.count > 0 and call('ZRANGEBYSCORE', q.exp, '-inf', q.t, 'LIMIT', '0', UP_TO_BATCH) or {}
  if grow and (folded or changed or now < q.seen or #dead > 0 or q.untold) then
    -- What follows would pass without memory, and the join then not.
    call('HSET', q.meta, 'seen', q.t)
  end
  if folded then
    if not grow then
      ease(q)
    end
    unfold(q, folded)
  end
  if changed then
    if not grow then
      ease(q)
    end
    repair(q)
  end
  if now < q.seen then
    if not grow then
      ease(q)
    end
    clamp(q)
    dead = call('ZRANGEBYSCORE', q.exp, '-inf', q.t, 'LIMIT', '0', UP_TO_BATCH)
  end
  if #dead > 0 then
    drop(q, dead)
    q.crowded = #dead == BATCH
  end
  if changed or #dead > 0 or q.untold or shape == 'p' then
    repeat
      admit(q)
      -- Whoever was in before is not to hear in this very answer that it waits.
    until not (changed and q.more)
  end
  return q
end

-- The sequence number of a node that has not expired (one may wait to be dropped when many have), or nil.
local function find(q, id)
  local s = call('ZSCORE', q.seq, id)
  if not s then
    return nil
  end
  if q.crowded and tonumber(call('ZSCORE', q.exp, id) or 0) <= q.now then
    drop(q, { id })
    admit(q)
    return nil
  end
  return tonumber(s)
end

-- Where a node stands: 0 when admitted; -2 - limit when it waits and does not fit the limit (any more); else
-- 1 + the microseconds until what it waits for may have expired.
local function stands(q, id, seq)
  if seq <= q.front then
    return 0
  end
  local ahead
  if q.shape == 'p' then
    -- Without a limit (an operator's DEL) it fits nothing: it must give up, for whoever brings one joins behind it.
    local limit = q.limit or 0
    if weight(q, id) > limit then
      return -2 - limit
    end
    ahead = call('ZRANGE', q.exp, 0, 0, 'WITHSCORES')[2]
  else
    local before = q.seq
    if q.shape == 'rw' and data(q, id) == 's' then
      before = q.extra
    end
    local nearest = call('ZREVRANGEBYSCORE', before, '(' .. written(q, seq), '-inf', 'LIMIT', '0', '1')[1]
    if not nearest then
      return 0
    end
    ahead = call('ZSCORE', q.exp, nearest)
  end
  if not ahead then
    -- What it waits for is no node: an operator's doing.
    repair(q)
    admit(q)
    return stands(q, id, seq)
  end
  return 1 + math.max(0, tonumber(ahead) - q.now)
end

-- Folds an empty queue that has no tombstone alive: what is remembered between calls is its last sequence number.
local function fold(q)
  -- Passes without memory, and so lets the rest through.
  call('DEL', q.meta)
  call('SET', q.one, num(q.last), 'PX', LIFE)
end

-- Writes what is remembered between calls.
local function note(q)
  local changes, n = { 'seen', q.t }, 2
  for field, before in pairs(q.read) do
    if q[field] ~= before then
      changes[n + 1], changes[n + 2], n = field, written(q, q[field]), n + 2
    end
  end
  if q.more ~= q.untold then
    changes[n + 1], changes[n + 2], n = 'more', q.more and 1 or 0, n + 2
  end
  local renew = q.now > q.kept + HOUR or q.now < q.kept
  if renew then
    changes[n + 1], changes[n + 2] = 'kept', q.t
  end
  call('HSET', q.meta, unpack(changes))
  if renew then
    ease(q)
  end
end

-- Writes what is remembered between calls, tells who was admitted (one message per client), and answers the flags.
-- A PUBLISH that is refused (an ACL without the channel) must not undo half of the work: it is only reported.
local function close(q)
  if q.one and q.count == 0 and q.left <= q.now then
    fold(q)
  else
    note(q)
  end
  if q.unfit then
    tell(q, unpack(q.unfit))
  end
  local untold = false
  for inbox, told in pairs(q.told) do
    local answer = redis.pcall('PUBLISH', inbox, table.concat(told, ' '))
    untold = untold or type(answer) == 'table' and answer.err ~= nil
  end
  return ((q.more or q.crowded) and MORE or 0) + (untold and UNTOLD or 0)
end
