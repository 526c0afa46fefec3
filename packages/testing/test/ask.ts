/** One model call, without any client in between. */
export async function ask(
  url: string,
  body: Record<string, unknown> = {},
  signal?: AbortSignal,
): Promise<Response> {
  return fetch(`${url}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  })
}

export async function askForStream(
  url: string,
  body: Record<string, unknown> = {},
  signal?: AbortSignal,
): Promise<Response> {
  return ask(url, { stream: true, ...body }, signal)
}
