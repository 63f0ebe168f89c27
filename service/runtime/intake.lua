-- Take the accepted lines of one ingress request into the table's stream, all or nothing.
-- KEYS[1]  the stream: entries `n` rows, `d` NDJSON lines, `t` rows ever accepted up to this one
-- KEYS[2]  the stream of lines rejected at the door, KEYS[3] the counter of all dead letters
-- KEYS[4]  the pipeline's record in the registry
-- KEYS[5]  the record of the request's Idempotency-Key; only with ARGV[6]
-- ARGV     rows, lines, most rows that may wait, most rejected lines kept, now in ms,
--          the answer to record ('' for none), the text in it that the new entry's id takes the
--          place of, how long it is kept in ms, how many lines were rejected, the pipeline's id as
--          the registry has it, what KEYS[5] must hold, then the lines to list, as JSON
-- Reply    {id of the new entry ('0-0' without rows), rows that wait}, or {'', rows that wait}
--          if too many wait, or {'', -1} if KEYS[5] is another request's by now, or {'', -2} if
--          the pipeline gets another statement, or nil if it is gone: then nothing was done
-- One call, so that a request repeated after a crash either finds its answer or has left nothing,
-- and that no pipeline gets what another one of its name was sent before it was deleted.
if redis.call('HGET', KEYS[4], 'id') ~= ARGV[10] then return false end
-- What came now would be in no savepoint, and go with the state that is dropped.
if redis.call('HEXISTS', KEYS[4], 'replacement') == 1 then return {'', -2} end
-- A request that stood still for longer than its lock was sent again, and taken.
if ARGV[6] ~= '' and redis.call('GET', KEYS[5]) ~= ARGV[11] then return {'', -1} end
local rows, waiting, total = tonumber(ARGV[1]), 0, 0

local function field(entry, name)
  for at = 1, #entry[2], 2 do
    if entry[2][at] == name then return tonumber(entry[2][at + 1]) end
  end
end

-- Rows that wait are told by the first and the last entry: nothing is counted through.
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if newest then
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  total = field(newest, 't')
  waiting = total - field(oldest, 't') + field(oldest, 'n')
end
-- An empty stream takes a request of any size: otherwise a large one could never come in.
if rows > 0 and waiting > 0 and waiting + rows > tonumber(ARGV[3]) then return {'', waiting} end

local id = '0-0'
if rows > 0 then
  id = redis.call('XADD', KEYS[1], '*', 'n', rows, 'd', ARGV[2], 't', string.format('%.0f', total + rows))
end
if tonumber(ARGV[9]) > 0 then redis.call('INCRBY', KEYS[3], ARGV[9]) end
for at = 12, #ARGV do
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'letter', ARGV[at], 'ms', ARGV[5])
end
if ARGV[6] ~= '' then
  local answer = string.gsub(ARGV[6], ARGV[7], id)
  redis.call('SET', KEYS[5], answer, 'PX', ARGV[8])
end
return {id, waiting + rows}
