-- A: record in a hash, body in a string of its own, stream entry = id.
function V.create(ids, digests, bodies)
  local sets = {}
  for i = 1, #ids do
    new_record(ids[i], digests[i], call('XADD', READY, '*', 'i', ids[i]))
    sets[2 * i - 1], sets[2 * i] = BODY .. ids[i], bodies[i]
  end
  call('MSET', unpack(sets))
end

function V.start(entries, token, trim)
  return start(entries, token, trim, function(ids, answer)
    local bodies = call('MGET', unpack(prefixed(BODY, ids)))
    for i = 1, #ids do answer[4 * i + 1] = bodies[i] end
  end)
end
