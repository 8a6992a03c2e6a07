-- Has wrk send creates.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"name":"Rex","categoryId":1}'
