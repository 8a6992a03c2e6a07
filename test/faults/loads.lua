-- What wrk sends: "list", "create" or both.
init = function(arguments)
  local kind = arguments[1]
  local list = wrk.format("GET", "/v1/pets")
  local headers = { ["Content-Type"] = "application/json" }
  for name, value in pairs(wrk.headers) do
    headers[name] = value
  end
  local create = wrk.format("POST", "/v1/pets", headers, '{"name":"Rex","categoryId":1}')
  local one = { list = list, create = create }
  local turn = 0
  request = function()
    turn = turn + 1
    if kind == "both" then
      return turn % 10 == 0 and one.create or one.list
    end
    return one[kind]
  end
end
