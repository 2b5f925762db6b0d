-- The common part of all scripts: one queue, and the order of work of every operation: drop expired
-- nodes, act, admit. docs/protocol/redis-queue.md explains it.
--
-- The layout of a queue (all keys in one hash slot) that is not folded (one.lua):
--   seq   sorted set   node id -> sequence number          the order of the queue
--   exp   sorted set   node id -> expiry, microseconds
--   node  hash         node id -> "claim weight ttl joined secret@inbox label", and data as in one.lua
--   meta  hash         last: the last sequence number; front: the highest one that was admitted and notified;
--                      sum: permits of the admitted nodes; seen: the server's time at the last call;
--                      more: some admitted nodes are not notified yet; alive: how long the other keys live;
--                      kept: how long this hash lives; left: until when tombstones exist;
--                      mend: the position of a repair under way; rw: writers: their number
--   one   x, rw: the folded form; p: absent
--   extra rw: sorted set of the writers, id -> sequence number; p: the stored limit, a string; x: absent
--   left  sorted set   id of an abandoned attempt -> until when a late join of it is refused
--
-- Shapes: x (exclusive claims only), rw (exclusive and shared), p (permits). After the shape of an
-- observed kind comes a +: a script that changes the queue notifies its watches, once.
--
-- No operation loops over the queue. It looks at the nodes that it drops and admits, at most BATCH
-- of each, and returns "more" if there may be others. After foreign changes, or a step back of the
-- clock, the queue is read once, at most LOOK entries in each call: mend().

local BATCH, UP_TO_BATCH = 256, '256'
local MORE = 1
local LOOK = 1024
-- The labels and data of one page of a listing, in bytes, without the last node's.
local PAGE = 262144
-- The state of a node whose state is known only at the end of a repair.
local UNSETTLED = -1099511627776
-- The longest wait for an expiry, in microseconds. No TTL is longer.
local LONGEST = 7200 * 1000000
-- How long a tombstone exists, in microseconds. The clients have the same constant.
local STAND = 600 * 1000000

-- A number as text, which may be known already: formatting a number takes longer than some
-- commands, and the server formats each number that a command gets.
local function written(q, n)
  return q.text[n] or num(n)
end

-- Returns the parts of a node's text: claim ('x', 's' or 'p'), weight, ttl, joined, inbox, label,
-- data. Nothing for other text.
local function parse(text)
  local claim, w, ttl, joined, inbox, label = string.match(text or '', '^([xsp]) (%d+) (%d+) (%d+) (%S+) (.*)$')
  if claim and tonumber(w) <= 4294967295 and sound(ttl) and sound(joined) then
    return claim, w, ttl, joined, inbox, labelled(label)
  end
end

local function data(q, id)
  return parse(call('HGET', q.node, id))
end

local function weight(q, id)
  local _, w = data(q, id)
  return tonumber(w or 0)
end

-- Permits: the sequence number up to which the sum counts.
local function counted(q)
  local phase, upto = string.match(q.mend or '', '^(%l+) (%d+)$')
  if not phase or phase == 'admit' then
    return q.front
  end
  return phase == 'sum' and tonumber(upto) or 0
end

-- Removes nodes anywhere in the queue: at most BATCH of them, because unpack() has a limit.
local function drop(q, ids)
  q.changed = true
  if q.shape == 'p' then
    for _, id in ipairs(ids) do
      local s = call('ZSCORE', q.seq, id)
      if s and tonumber(s) <= counted(q) then
        local claim, w = data(q, id)
        if claim then
          q.sum = q.sum - tonumber(w)
        else
          -- Foreign data hides the weight: the sum is computed again before the next admission.
          q.mend = q.mend or 'sum 0'
        end
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

-- Prepares a message: an admission, with the secret that the node's client gave it; or, with a
-- negated sequence number, a recheck, which needs no secret because a renewal then decides. The
-- caller's own node gets no message.
local function notify(q, id, seq)
  if q.callers[id] then
    return
  end
  local text = call('HGET', q.node, id)
  local secret, inbox = string.match(text or '', '^[xsp] %d+ %d+ %d+ (%w+)@(%S+) ')
  if inbox then
    local messages = q.messages[inbox] or {}
    messages[#messages + 1] = id .. ' ' .. written(q, seq) .. (seq > 0 and '.' .. secret or '')
    q.messages[inbox] = messages
  end
end

local mend

-- Admits the next node. Later joins come after it, even if its number is foreign.
local function let_in(q, id, seq)
  q.front, q.last, q.changed = seq, math.max(q.last, seq), true
  notify(q, id, seq)
end

-- Exclusive claims: admits the first node. Returns whether all entries that it read are valid. The
-- next two functions do the same.
local function admit_first(q)
  local first = call('ZRANGE', q.seq, '0', '0', 'WITHSCORES')
  local seq = sound(first[2])
  if seq and seq > q.front then
    q.text[seq] = first[2]
    let_in(q, first[1], seq)
  end
  return seq or not first[1]
end

-- Admits readers up to the first writer, or only that writer if it is the first node.
local function admit_readers(q)
  local first = call('ZRANGE', q.extra, 0, 0, 'WITHSCORES')
  local writer, upto = sound(first[2]), '+inf'
  if first[1] then
    local rank = call('ZRANK', q.seq, first[1])
    if not writer or not rank or rank > 0 and not sound(call('ZRANGE', q.seq, 0, 0, 'WITHSCORES')[2]) then
      return false
    end
    upto = (rank == 0 and '' or '(') .. num(writer)
  end
  local next = call('ZRANGEBYSCORE', q.seq, '(' .. num(q.front), upto, 'WITHSCORES', 'LIMIT', 0, BATCH)
  for i = 1, #next, 2 do
    local seq = sound(next[i + 1])
    if not seq then
      return false
    end
    let_in(q, next[i], seq)
  end
  q.more = #next == 2 * BATCH
  return true
end

-- Admits permits while they fit.
local function admit_fitting(q)
  for _ = 1, BATCH do
    local next = call('ZRANGEBYSCORE', q.seq, '(' .. num(q.front), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local seq = sound(next[2])
    if not seq then
      return not next[1]
    end
    local claim, w = data(q, next[1])
    if not claim then
      return false
    end
    w = tonumber(w)
    if q.sum + w > (q.limit or 0) then
      if w > (q.limit or 0) then
        q.unfit = { next[1], -seq }
      end
      return true
    end
    q.sum = q.sum + w
    let_in(q, next[1], seq)
  end
  q.more = true
  return true
end

local ADMIT = { x = admit_first, rw = admit_readers, p = admit_fitting }

-- Admits in order, by the rule over the whole queue, and prepares the messages. The admitted nodes
-- are always a prefix of the queue. For permits, front and sum are state. For other shapes, "front"
-- only says up to which node messages were sent. Every removal needs this; a join admits itself.
-- During a repair no node is admitted. The first waiter also gets a message if it can never fit the
-- limit: it must give up, so that later nodes can be admitted.
local function admit(q)
  q.more, q.unfit = false, nil
  if q.mend and q.mend ~= 'admit 0' then
    q.more = true
  elseif q.count > 0 and not ADMIT[q.shape](q) then
    q.mend = 'node 0'
    mend(q)
  end
end

-- A write that a server without memory allows.
local function ease(q)
  local until_when = math.max(q.kept, q.alive, q.now + 1000 * LIFE)
  call('PEXPIRE', q.meta, num((until_when - q.now) / 1000))
end

-- Ensures that the keys outlive the node that is written, and never shortens their life.
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

-- Calls a command with a few of the words at a time (unpack() has a limit), and joins the answers.
local function with_all(command, key, words)
  local answers = {}
  for i = 1, #words, BATCH do
    local part = call(command, key, unpack(words, i, math.min(i + BATCH - 1, #words)))
    for j = 1, type(part) == 'table' and #part or 0 do
      answers[#answers + 1] = part[j]
    end
  end
  return answers
end

-- Reads some entries of one part (node, seq, exp, extra) from a cursor on, and removes entries that
-- are not in all parts or are not nodes. Returns the next cursor.
local function cull(q, part, cursor)
  local found = call(part == 'node' and 'HSCAN' or 'ZSCAN', q[part], cursor, 'COUNT', BATCH)
  local ids, texts = {}, {}
  for i = 1, #found[2], 2 do
    ids[#ids + 1], texts[#texts + 1] = found[2][i], found[2][i + 1]
  end
  q.look = q.look - #ids - 16
  if part ~= 'node' then
    texts = with_all('HMGET', q.node, ids)
  end
  local seqs, exps = with_all('ZMSCORE', q.seq, ids), with_all('ZMSCORE', q.exp, ids)
  local gone, read = {}, {}
  for i, id in ipairs(ids) do
    local claim, _, ttl = parse(texts[i])
    local seq, exp = sound(seqs[i]), sound(exps[i])
    if not claim or not seq or not exp then
      gone[#gone + 1] = id
    elseif part == 'node' then
      -- Known, unless "meta" is gone. The next join comes after all nodes.
      q.last = math.max(q.last, seq)
      -- After a step back of the server's clock, a node still delays others by at most its TTL.
      if exp > q.now + tonumber(ttl) then
        call('ZADD', q.exp, q.now + tonumber(ttl), id)
      end
      if q.shape == 'rw' and claim == 'x' then
        call('ZADD', q.extra, seq, id)
      end
    elseif part == 'extra' and claim ~= 'x' then
      read[#read + 1] = id
    end
  end
  q.changed = q.changed or #gone > 0
  with_all('ZREM', q.seq, gone)
  with_all('ZREM', q.exp, gone)
  with_all('HDEL', q.node, gone)
  if q.shape == 'rw' then
    with_all('ZREM', q.extra, gone)
    with_all('ZREM', q.extra, read)
  end
  return found[1]
end

-- Permits: adds up some more weights of the admitted nodes. Returns where it stopped, or '0' at the
-- end.
local function add_up(q, upto)
  if upto == '0' then
    q.sum = 0
  end
  local some = call('ZRANGEBYSCORE', q.seq, '(' .. upto, num(q.front), 'WITHSCORES', 'LIMIT', 0, BATCH)
  for i = 1, #some, 2 do
    q.sum = q.sum + weight(q, some[i])
    upto = some[i + 1]
  end
  q.look = q.look - #some - 16
  return #some == 2 * BATCH and upto or '0'
end

-- Drops expired nodes. Returns whether there were any.
local function drop_expired(q, dead)
  dead = dead or call('ZRANGEBYSCORE', q.exp, '-inf', q.t, 'LIMIT', '0', UP_TO_BATCH)
  if #dead > 0 then
    drop(q, dead)
    q.more_expired = #dead == BATCH
  end
  return #dead > 0
end

local function recount(q)
  q.writers = q.shape == 'rw' and call('ZCARD', q.extra) or 0
  q.count = call('ZCARD', q.seq)
end

-- The phases of a repair, each with the next phase.
local NEXT = {
  x = { node = 'seq', seq = 'exp', exp = 'admit' },
  rw = { node = 'seq', seq = 'exp', exp = 'extra', extra = 'admit' },
  p = { node = 'seq', seq = 'exp', exp = 'sum', sum = 'admit' },
}

-- Repairs a queue after foreign changes (an operator's DEL or ZREM, an eviction, a foreign member):
-- removes entries that are not in all three parts, and computes derived values again. It reads the
-- whole queue once, a part in each call: "mend" is a phase and a cursor.
--   - It is safe: until the end no node is admitted, known holders stay holders, and no other
--     caller gets the answer that its node waits or that the queue is free. A caller that gets
--     "more" continues.
--   - If "meta" is gone, "front" and "sum" start at 0, and admit() processes the queue once more. A
--     node that the rule admits is admitted and notified again, which changes nothing. Permits
--     above a limit that was lowered since are not admitted: they wait, and their owner's renewal
--     counts this as a revocation.
function mend(q)
  q.mend = q.mend or 'node 0'
  while q.mend and q.look > 0 do
    local phase, cursor = string.match(q.mend, '^(%l+) (%d+)$')
    if phase == 'admit' then
      recount(q)
      q.look = q.look - BATCH
      drop_expired(q)
      admit(q)
      if not q.more then
        q.mend = nil
      end
    else
      cursor = phase == 'sum' and add_up(q, cursor) or phase ~= 'sum' and cull(q, phase, cursor)
      q.mend = (cursor == '0' and NEXT[q.shape][phase] or phase) .. ' ' .. cursor
    end
  end
  recount(q)
  if q.shape == 'rw' then
    call('PEXPIRE', q.extra, math.max(1, call('PTTL', q.exp)))
  end
  q.more = q.more or q.mend ~= nil
end

-- Writes a folded queue in full: its node, unless it has expired, and the last sequence number.
local function unfold(q, text)
  local seq, id, expiry, ttl, claim, rest = inline(text)
  q.last = math.max(q.last, tonumber(seq or string.match(text, '^%d+$')) or 0)
  -- The server's clock may have been stepped back, as in cull().
  expiry = seq and math.min(tonumber(expiry), q.now + tonumber(ttl))
  if seq and expiry <= q.now then
    q.changed = true
  elseif seq then
    call('ZADD', q.seq, seq, id)
    call('ZADD', q.exp, expiry, id)
    call('HSET', q.node, id, table.concat({ claim, 1, ttl, rest }, ' '))
    if q.shape == 'rw' and claim == 'x' then
      q.writers = q.writers + call('ZADD', q.extra, seq, id)
    end
    keep(q, tonumber(ttl), true)
    -- The node is admitted and notified.
    q.front = math.max(q.front, tonumber(seq))
    q.count = q.count + 1
  end
  call('DEL', q.one)
end

-- The phase and cursor of a repair, as "meta" has them.
local function under_way(shape, text)
  local phase, cursor = string.match(text or '', '^(%l+) (%d+)$')
  if phase then
    -- Text of another form means: from the beginning.
    local ours = #cursor <= 16 and (NEXT[shape][phase] or phase == 'admit' and cursor == '0')
    return ours and text or 'node 0'
  end
end

-- Whether "meta" has foreign numbers. They are dropped: values that follow from the nodes are
-- computed again, and are written even if they equal the values that were read.
local DERIVED = { [2] = 'front', [3] = 'sum', [6] = 'alive', [8] = 'left', [9] = 'writers' }
local function is_forged(q, meta)
  local forged = q.front > q.last
  for i, field in pairs(DERIVED) do
    if meta[i] and not sound(meta[i]) then
      forged, q.read[field] = true, false
    end
  end
  -- No client sets such a long life.
  if q.alive > q.now + 4 * LONGEST then
    q.alive = 0
  end
  if q.kept > q.now + 4 * LONGEST + 1000 * LIFE then
    q.kept = 0
  end
  return forged
end

-- Opens the queue whose keys begin at KEYS[first]: reads it, drops expired nodes, admits. `callers`
-- are the ids that the operation itself answers. With `grow` the operation needs memory, and a
-- server without memory refuses it. Without `grow`, its first write must be a command that a server
-- without memory allows, for example ease(): then the server allows the whole script. With `grow`,
-- a last number out of range is an error, because no next number can be counted from it. All other
-- operations ignore such a number, and do not change it.
local function open(word, first, now, callers, grow)
  local t = num(now)
  local shape, observed = shaped(word)
  local q = {
    shape = shape, observed = observed, changed = false, now = now, t = t, text = { [now] = t }, callers = callers, messages = {}, more = false,
    more_expired = false,
    look = LOOK,
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
  local meta = call('HMGET', q.meta, 'last', 'front', 'sum', 'seen', 'more', 'alive', 'kept', 'left', 'writers', 'mend')
  q.last, q.front, q.sum, q.seen = sound(meta[1]) or 0, sound(meta[2]) or 0, sound(meta[3]) or 0, sound(meta[4]) or 0
  q.more_before, q.alive, q.kept = meta[5] == '1', sound(meta[6]) or 0, sound(meta[7]) or 0
  q.left, q.writers, q.mend = sound(meta[8]) or 0, sound(meta[9]) or 0, under_way(shape, meta[10])
  q.read = {
    last = q.last, front = q.front, sum = q.sum, alive = q.alive, left = q.left, writers = q.writers,
    mend = q.mend or '',
  }
  q.spoilt = meta[1] and not sound(meta[1]) and q.meta
  if is_forged(q, meta) then
    changed, q.front, q.sum = true, 0, 0
  end
  if q.count == 0 then
    -- The nodes' keys may have expired when all owners are dead: then no node was dropped.
    q.sum = 0
  end
  local lost = not meta[1]
  changed = changed or lost and q.count > 0
  local folded
  if shape == 'p' then
    q.limit, q.foreign = stored_limit(q.extra)
  else
    folded = known
    if folded == nil then
      folded = call('GET', q.one)
    end
    if folded and string.find(folded, '^%d+ ') and not inline(folded)
      or folded and string.find(folded, '^%d+$') and not sound(folded) then
      q.spoilt, folded = q.one, nil
    end
    changed = changed or shape == 'rw' and call('ZCARD', q.extra) ~= q.writers
  end
  if grow and (q.spoilt or math.max(q.last, tonumber(folded and string.match(folded, '^%d+') or 0)) >= TOP) then
    refuse(q.spoilt or folded and q.one or q.meta)
  end
  -- Never used, or its hash is gone: it is unknown until when tombstones exist. A join checks this.
  -- The other operations, which do not have that key, assume that a tombstone was written just now,
  -- so that the next join checks.
  q.unknown = lost and not folded
  if q.unknown and not grow then
    q.left = now + STAND
  end
  local dead = q.count > 0 and call('ZRANGEBYSCORE', q.exp, '-inf', q.t, 'LIMIT', '0', UP_TO_BATCH) or {}
  local broken = changed or now < q.seen or q.mend
  if grow and (folded or broken or #dead > 0 or q.more_before) then
    -- Fails without memory. Otherwise the following writes would succeed, but the join itself would
    -- not.
    call('HSET', q.meta, 'seen', q.t)
  end
  if folded then
    if not grow then
      ease(q)
    end
    unfold(q, folded)
  end
  if broken then
    if not grow then
      ease(q)
    end
    mend(q)
    dead = nil
  end
  if drop_expired(q, dead) or q.more_before and not broken or shape == 'p' then
    admit(q)
  end
  return q
end

-- Returns the sequence number of a node that has not expired, or nil. (If many nodes have expired,
-- some are not dropped yet.)
local function find(q, id)
  local s = call('ZSCORE', q.seq, id)
  if not s then
    return nil
  end
  if q.more_expired and tonumber(call('ZSCORE', q.exp, id) or 0) <= q.now then
    drop(q, { id })
    admit(q)
    return nil
  end
  return tonumber(s)
end

-- Returns the state of a node: 0 if admitted; -2 - limit if it waits and does not fit the limit
-- (any more); UNSETTLED if only the end of a repair shows it; otherwise 1 + the microseconds until
-- the node that it waits for may have expired.
local function stands(q, id, seq)
  if seq <= q.front then
    return 0
  end
  if q.mend then
    return UNSETTLED
  end
  local ahead
  if q.shape == 'p' then
    -- Without a limit (an operator's DEL, or a text that is not a limit) no node fits. The waiter
    -- must give up, because the join that stores a limit comes after it.
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
  if not sound(ahead) then
    -- The entry that it waits for is not a node: a foreign change.
    mend(q)
    return stands(q, id, seq)
  end
  return 1 + math.max(0, math.min(tonumber(ahead) - q.now, LONGEST))
end

-- Folds an empty queue without a live tombstone: only its last sequence number is kept between
-- calls.
local function fold(q)
  -- Allowed without memory, and then the server allows the rest.
  call('DEL', q.meta)
  call('SET', q.one, num(q.last), 'PX', LIFE)
end

-- Writes the state that is kept between calls.
local function note(q)
  local changes, n = { 'seen', q.t }, 2
  q.mend = q.mend or ''
  for field, before in pairs(q.read) do
    if q[field] ~= before then
      changes[n + 1], changes[n + 2], n = field, field == 'mend' and q.mend or written(q, q[field]), n + 2
    end
  end
  if q.more ~= q.more_before then
    changes[n + 1], changes[n + 2], n = 'more', q.more and 1 or 0, n + 2
  end
  -- Written again when more than a twenty-sixth of its life is over.
  local wanted = q.now + 1000 * LIFE
  local renew = q.kept < math.max(wanted - 1000 * LIFE / 26, q.alive)
  if renew then
    q.kept = math.max(wanted, q.alive)
    changes[n + 1], changes[n + 2] = 'kept', num(q.kept)
  end
  call('HSET', q.meta, unpack(changes))
  if renew then
    ease(q)
  end
end

-- Writes the state that is kept between calls, publishes the messages (one for each client) and the
-- change of an observed queue, and returns the flags. A refused PUBLISH (an ACL without the
-- channel) must not leave the work half done: it is only reported.
local function close(q)
  if q.one and q.count == 0 and q.left <= q.now and not q.spoilt and not q.mend then
    fold(q)
  else
    note(q)
  end
  if q.unfit then
    notify(q, unpack(q.unfit))
  end
  local refused = false
  for inbox, messages in pairs(q.messages) do
    local answer = redis.pcall('PUBLISH', inbox, table.concat(messages, ' '))
    refused = refused or type(answer) == 'table' and answer.err ~= nil
  end
  if q.observed and q.changed and tell(news(q.seq), q.count > 0) > 0 then
    refused = true
  end
  return ((q.more or q.more_expired) and MORE or 0) + (refused and PUBLISH_REFUSED or 0)
end
