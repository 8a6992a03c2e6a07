-- Has wrk send 80 % lists, 15 % gets and 5 % creates. Each connection pauses for so many ms before each request.
function init(arguments)
  wrk.headers["Content-Type"] = "application/json"
  local pause = tonumber(arguments[1]) or 0
  delay = pause > 0 and function() return pause end or nil
end

function request()
  local drawn = math.random(100)
  if drawn <= 5 then
    return wrk.format("POST", "/v1/pets", nil, '{"name":"Rex","categoryId":1}')
  end
  return wrk.format("GET", drawn <= 20 and "/v1/pets/" .. math.random(1000) or "/v1/pets?limit=20")
end
