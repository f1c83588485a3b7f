-- finish_plain: the usual end: a result, of a task of which nothing rare is known.

local LEASE = Q .. 'lease:'
local now_text, last_beat, somebody_waits, completed, rows, running, ended, leases = nil, nil, nil, 0, {}, {}, {}, ledger.del

local function finish_plain(id, key, run, output)
  local after, attempt, began = plain_end(known[key], run, output)
  if not after then
    return false
  end
  if somebody_waits and call('EXISTS', Q .. 'waiter:' .. id) == 1 then
    ledger.publish[#ledger.publish + 1] = { Q .. 'ended', id .. ' completed' }
  end
  if retention.completed == 0 then
    ledger.gone[id] = true
    known[key] = ABSENT
    leases[#leases + 1] = key
  else
    put(key, after)
  end
  if not (last_beat < began and began <= now) then
    leases[#leases + 1] = LEASE .. id
  end
  completed = completed + 1
  running[#running + 1] = id
  rows[2 * completed - 1], rows[2 * completed] = now_text, id
  local same = ended[attempt] or {}
  ended[attempt] = same
  same[#same + 1] = id
  return true
end
