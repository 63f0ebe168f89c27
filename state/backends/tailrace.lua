#!lua name=tailrace_VERSION
-- The epoch protocol: what must happen at once, inside Redis. VERSION stands for a digest of this
-- file, so that versions of Tailrace do not call each other's functions.
--
-- Key groups     KEYS  T:meta, T:pending          T = tailrace:{pipeline:node:key group}
--   begin        ARGV  epoch, run                 an attempt of an epoch wants to read
--   commit       ARGV  epoch, run, item ...       and leaves what it wants to write
--   commit       KEYS  T:offered, too; ARGV epoch, run, number of items, number of parts: items are
--                      in this list, parts in the hashes T:offered#1 and so on; the same
--                      transaction filled them
--   promote      ARGV  marker                     carry out pending writes up to this epoch
--   own          ARGV  run, marker                a new run takes the key group over
-- The pipeline   KEYS  P:run, P:marker, P:stages  P = tailrace:{pipeline}
--   close        ARGV  run, epoch, offsets, item ...    apply effects and set the marker
-- State keys are named inside, from the prefix of the first key, so they share its hash tag and slot.
--
-- T:meta is a hash: format; epoch, the last applied one; pending, the epoch whose writes wait in
-- the list T:pending, and chunks, the number of its items; parts, the number of the hashes
-- T:pending#1 and so on, where there are any; run, the newest run that was here. While parts wait,
-- the format is another one: versions that know none must not take the list for all that waits.
-- Formats 2 and 3 are those of versions that know no segments of histories; a run of this one makes
-- 4 and 5 of them.
--
-- Writes are items: a chunk of commands, packed, then the long values of its commands as they are
-- (state/backends/chunks.py). Lua takes some two nanoseconds for each byte of each string that it
-- is given, so bytes come into Lua once only, to be written where they belong.
--
-- What holds:
--   a state key changes only when its epoch is closed: by promote with the marker, by own with the
--   marker, or by begin of the next epoch, which the ledger lets run only after the close;
--   pending writes of the current epoch are kept when another attempt of the same run begins, since
--   the one that wrote them may be the one that counts; a new run discards them;
--   nothing is written before everything was checked: Redis does not roll a function back.
--
-- Replies are a status, of begin the epoch that the state is of, or an error whose first word is one of
--   FENCED <run>    a newer run was here          PASSED <epoch>  the key group is past the epoch
--   GONE            the key group was not begun   IMPURE          two attempts wrote differently
--   CORRUPT <text>  what is stored is not ours    CLOSED <epoch>  the marker is elsewhere
--   OFFSETS         closed with other offsets     RUN <run>       another run owns the pipeline
--   STAGED <found>  a staged list is not whole    UNBEGUN         an earlier epoch still waits
--   FORMAT <found> <oldest> <newest>           what is stored has a format that is not read here
--   UNKNOWN <command>       what waits holds a command of another version

local FORMAT = '4'
local FORMAT_WITH_PARTS = '5'
local WITH_PARTS = { ['2'] = '3', ['4'] = '5' }
local WITHOUT_PARTS = { ['2'] = '2', ['3'] = '2', ['4'] = '4', ['5'] = '4' }
local PIECE = 4000

-- Which type a command needs; UNLINK takes any.
local TYPE_OF = {
  HSET = 'hash', HDEL = 'hash', HINCRBY = 'hash', ZADD = 'zset', ZREM = 'zset',
  ZREMRANGEBYLEX = 'zset', ZREMRANGEBYSCORE = 'zset', XADD = 'stream', INCRBY = 'string', UNLINK = 'any',
  TAKE = 'hash',
}

local function fail(code, detail)
  return redis.error_reply(code .. ' ' .. tostring(detail or ''))
end

local function read_meta(key)
  local held = redis.pcall('HMGET', key, 'format', 'epoch', 'pending', 'chunks', 'run', 'parts')
  if held.err then return nil, fail('CORRUPT', 'meta is no hash') end
  if not held[1] then
    if redis.call('EXISTS', key) == 1 then return nil, fail('CORRUPT', 'meta has no format') end
    return { format = FORMAT, epoch = 0, run = -1, parts = 0 }
  end
  if not WITHOUT_PARTS[held[1]] then
    return nil, fail('FORMAT', held[1] .. ' 2 ' .. FORMAT_WITH_PARTS)
  end
  local meta = {
    format = held[1], epoch = tonumber(held[2]), pending = tonumber(held[3] or ''),
    chunks = tonumber(held[4] or ''), run = tonumber(held[5]), parts = tonumber(held[6] or '0'),
  }
  if not meta.epoch or not meta.run or not meta.parts then return nil, fail('CORRUPT', 'meta is not whole') end
  return meta
end

-- Items to one list of commands. A chunk is an array of commands, or a single one; each `false`
-- among the values of its commands stands for one of the items behind it.
local function decode(items, commands)
  local at = 1
  while items[at] do
    local is_good, held = pcall(cmsgpack.unpack, items[at])
    if not is_good or type(held) ~= 'table' then return fail('CORRUPT', 'a chunk is not msgpack') end
    if type(held[1]) == 'string' then held = { held } end
    at = at + 1
    for _, command in ipairs(held) do
      local name = type(command) == 'table' and command[1]
      if type(name) ~= 'string' or not string.match(name, '^%u+$') then
        return fail('CORRUPT', 'a chunk holds something that is no command')
      end
      if not TYPE_OF[name] and name ~= 'STAGED' then return fail('UNKNOWN', name) end
      if command[1] == 'HSET' then
        for place = 4, #command, 2 do
          if not command[place] then
            if not items[at] then return fail('CORRUPT', 'a chunk lacks a value') end
            command[place] = items[at]
            at = at + 1
          end
        end
      end
      commands[#commands + 1] = command
    end
  end
end

local function stream_id(text)
  local first, second = string.match(text, '^(%d+)%-(%d+)$')
  return tonumber(first), tonumber(second)
end

local function last_id_of(key)
  local info = redis.call('XINFO', 'STREAM', key)
  for at = 1, #info, 2 do
    if info[at] == 'last-generated-id' then return { stream_id(info[at + 1]) } end
  end
end

-- Would this XADD be taken, given the stream's last id? Returns the id after it.
local function id_after(last, command, epoch)
  local first, second = last[1], last[2]
  if command[4] ~= '' then
    local a, b = stream_id(command[4])
    if not a or a < first or (a == first and b <= second) then return nil end
    return { a, b }
  end
  if epoch < first then return nil end
  if epoch > first then first, second = epoch, -1 end
  return { first, second + #command - 4 }
end

-- A part of what is offered or pending.
local function part(name, number)
  return name .. '#' .. number
end

-- See that all commands can be carried out, before the first one is.
local function verify(prefix, commands, epoch)
  local types, last = {}, {}
  for _, command in ipairs(commands) do
    local name, key = command[1], prefix .. command[2]
    if name == 'TAKE' and redis.call('TYPE', part(prefix .. 'pending', command[3])).ok ~= 'hash' then
      return fail('CORRUPT', 'a part is gone')
    end
    local wanted, held = TYPE_OF[name], types[key]
    if not held then held = redis.call('TYPE', key).ok end
    if wanted == 'any' then
      types[key], last[key] = 'none', { 0, 0 }
    elseif held ~= 'none' and held ~= wanted then
      return fail('CORRUPT', 'a key holds a ' .. held .. ', not a ' .. wanted)
    else
      types[key] = wanted
      if name == 'XADD' then
        last[key] = last[key] or (held == 'stream' and last_id_of(key)) or { 0, 0 }
        last[key] = id_after(last[key], command, epoch)
        if not last[key] then return fail('CORRUPT', 'a stream already has this id') end
      elseif name == 'HINCRBY' and held == 'hash' then
        local number = redis.call('HGET', key, command[3])
        if number and not (#number <= 17 and string.match(number, '^%-?%d+$')) then
          return fail('CORRUPT', 'a field to count in is no whole number')
        end
      elseif name == 'INCRBY' and held == 'string' then
        local number = redis.call('GET', key)
        if number and not (#number <= 17 and string.match(number, '^%-?%d+$')) then
          return fail('CORRUPT', 'a counter is no whole number')
        end
      end
    end
  end
end

local function append(key, command, epoch)
  local id = command[4] ~= '' and command[4] or (epoch .. '-*')
  for at = 5, #command do redis.call('XADD', key, id, unpack(command[at])) end
  redis.call('XTRIM', key, 'MAXLEN', command[3])
end

local function carry_out(prefix, commands, epoch)
  for _, command in ipairs(commands) do
    local key = prefix .. command[2]
    if command[1] == 'XADD' then
      append(key, command, epoch)
    elseif command[1] == 'TAKE' then
      redis.call('RENAME', part(prefix .. 'pending', command[3]), key)
    else
      redis.call(command[1], key, unpack(command, 3))
    end
  end
end

local function forget(key, parts)
  redis.call('UNLINK', key)
  for number = 1, parts do redis.call('UNLINK', part(key, number)) end
end

local function discard(keys, meta)
  forget(keys[2], meta.parts)
  redis.call('HDEL', keys[1], 'pending', 'chunks', 'parts')
  meta.format, meta.pending, meta.parts = WITHOUT_PARTS[meta.format], nil, 0
  redis.call('HSET', keys[1], 'format', meta.format)
end

local function promote_up_to(keys, meta, marker)
  if not meta.pending or meta.pending > marker then return end
  local held, commands = redis.pcall('LRANGE', keys[2], 0, -1), {}
  if held.err or #held ~= meta.chunks then return fail('CORRUPT', 'pending is not whole') end
  local prefix = string.sub(keys[1], 1, -5)
  local problem = decode(held, commands) or verify(prefix, commands, meta.pending)
  if problem then return problem end
  carry_out(prefix, commands, meta.pending)
  meta.epoch = meta.pending
  redis.call('HSET', keys[1], 'epoch', meta.epoch)
  discard(keys, meta)
end

local function fence(meta, epoch, run)
  if meta.run > run then return fail('FENCED', meta.run) end
  if meta.epoch >= epoch then return fail('PASSED', meta.epoch) end
  if meta.pending and meta.pending > epoch then return fail('PASSED', meta.pending) end
end

local function begin(keys, args)
  local epoch, run = tonumber(args[1]), tonumber(args[2])
  local meta, problem = read_meta(keys[1])
  problem = problem or fence(meta, epoch, run)
  if problem then return problem end
  local is_new = run > meta.run
  problem = promote_up_to(keys, meta, epoch - 1)
  if problem then return problem end
  if is_new and meta.pending == epoch then discard(keys, meta) end
  if is_new then redis.call('HSET', keys[1], 'format', FORMAT, 'epoch', meta.epoch, 'run', run) end
  return meta.epoch
end

-- Whether two hashes hold the same.
local function is_same(one, other)
  local fields = redis.call('HKEYS', one)
  if redis.call('HLEN', other) ~= #fields then return false end
  for _, field in ipairs(fields) do
    if redis.call('HGET', one, field) ~= redis.call('HGET', other, field) then return false end
  end
  return true
end

-- The same epoch was committed already: by an attempt of this run, since a new one discards it.
local function compare(keys, meta, items, parts)
  local held = redis.call('LRANGE', keys[2], 0, -1)
  if #held ~= #items or meta.parts ~= parts then return fail('IMPURE') end
  for at, item in ipairs(items) do
    if held[at] ~= item then return fail('IMPURE') end
  end
  for number = 1, parts do
    if not is_same(part(keys[2], number), part(keys[3], number)) then return fail('IMPURE') end
  end
  return redis.status_reply('ALREADY')
end

-- What a commit brings, as arguments.
local function given(args)
  local items = { unpack(args, 3, math.min(#args, PIECE)) }
  for at = PIECE + 1, #args do items[#items + 1] = args[at] end
  return items
end

local function keep(keys, items)
  redis.call('UNLINK', keys[2])
  for at = 1, #items, PIECE do
    redis.call('RPUSH', keys[2], unpack(items, at, math.min(#items, at + PIECE - 1)))
  end
  return #items
end

local function checked_commit(keys, args)
  local epoch, run = tonumber(args[1]), tonumber(args[2])
  local meta, problem = read_meta(keys[1])
  problem = problem or fence(meta, epoch, run)
  if problem then return problem end
  -- Without a begin of this run there is nothing to write to: it was dropped or lost meanwhile.
  if meta.run < run then return fail('GONE') end
  local count, parts = tonumber(args[3]), keys[3] and tonumber(args[4]) or 0
  if meta.pending == epoch then
    local items = keys[3] and redis.call('LRANGE', keys[3], 0, -1) or given(args)
    return compare(keys, meta, items, parts)
  end
  if meta.pending then return fail('UNBEGUN') end
  -- A version that knew no parts may have discarded a commit, and left its parts and their number.
  if meta.parts > 0 then discard(keys, meta) end
  if not keys[3] then
    count = keep(keys, given(args))
  elseif redis.call('LLEN', keys[3]) ~= count then
    return fail('CORRUPT', 'a commit was not offered whole')
  else
    for number = 1, parts do
      redis.call('RENAME', part(keys[3], number), part(keys[2], number))
    end
    redis.call('RENAME', keys[3], keys[2])
    if parts > 0 then redis.call('HSET', keys[1], 'parts', parts, 'format', WITH_PARTS[meta.format]) end
  end
  redis.call('HSET', keys[1], 'pending', epoch, 'chunks', count)
  return redis.status_reply('OK')
end

local function commit(keys, args)
  local reply = checked_commit(keys, args)
  if keys[3] then forget(keys[3], tonumber(args[4])) end
  return reply
end

local function promote(keys, args)
  local meta, problem = read_meta(keys[1])
  return problem or promote_up_to(keys, meta, tonumber(args[1])) or redis.status_reply('OK')
end

local function own(keys, args)
  local run, marker = tonumber(args[1]), tonumber(args[2])
  local meta, problem = read_meta(keys[1])
  if problem then return problem end
  if meta.run > run then return fail('FENCED', meta.run) end
  if meta.epoch > marker then return fail('PASSED', meta.epoch) end
  problem = promote_up_to(keys, meta, marker)
  if problem then return problem end
  if meta.pending or meta.parts > 0 then discard(keys, meta) end
  redis.call('HSET', keys[1], 'format', FORMAT, 'epoch', meta.epoch, 'run', run)
  return redis.status_reply('OK')
end

-- Put the commands of staged lists in the place of their STAGED.
local function unfold(prefix, effects, commands)
  for _, effect in ipairs(effects) do
    if effect[1] ~= 'STAGED' then
      commands[#commands + 1] = effect
    else
      local held = redis.pcall('LRANGE', prefix .. effect[2], 0, -1)
      if held.err or #held ~= effect[3] then return fail('STAGED', held.err and 0 or #held) end
      local problem = decode(held, commands)
      if problem then return problem end
    end
  end
end

local function forget_staged(prefix, registry, effects)
  for _, name in ipairs(redis.call('SMEMBERS', registry)) do redis.call('UNLINK', prefix .. name) end
  for _, effect in ipairs(effects) do
    if effect[1] == 'STAGED' then redis.call('UNLINK', prefix .. effect[2]) end
  end
  redis.call('UNLINK', registry)
end

local function close(keys, args)
  local run, epoch, offsets = tonumber(args[1]), tonumber(args[2]), args[3]
  local newest = tonumber(redis.call('GET', keys[1]) or '0')
  if newest ~= run then return fail('RUN', newest) end
  local held = redis.call('HMGET', keys[2], 'epoch', 'offsets')
  local marker, effects, commands, chunks = tonumber(held[1] or '0'), {}, {}, {}
  for at = 4, #args do chunks[#chunks + 1] = args[at] end
  local prefix = string.sub(keys[1], 1, -4)
  local problem = decode(chunks, effects)
  if problem then return problem end
  if marker == epoch then
    if held[2] ~= offsets then return fail('OFFSETS') end
    forget_staged(prefix, keys[3], effects)
    return redis.status_reply('ALREADY')
  end
  if marker ~= epoch - 1 then return fail('CLOSED', marker) end
  problem = unfold(prefix, effects, commands) or verify(prefix, commands, epoch)
  if problem then return problem end
  carry_out(prefix, commands, epoch)
  forget_staged(prefix, keys[3], effects)
  local now = redis.call('TIME')
  local now_ms = now[1] .. string.sub(string.format('%06d', now[2]), 1, 3)
  redis.call('HSET', keys[2], 'epoch', epoch, 'run', run, 'closed_ms', now_ms, 'offsets', offsets)
  return redis.status_reply('OK')
end

redis.register_function('begin_VERSION', begin)
redis.register_function('commit_VERSION', commit)
redis.register_function('promote_VERSION', promote)
redis.register_function('own_VERSION', own)
redis.register_function('close_VERSION', close)
