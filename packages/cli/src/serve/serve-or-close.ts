import { serve, type ListeningServer, type ServableApp, type ServeOptions } from '@osmosis/server'

/** Serves an app; one that cannot be served is closed, or what it has begun would go on. */
export async function serveOrClose(
  app: ServableApp,
  options: ServeOptions,
): Promise<ListeningServer> {
  try {
    return await serve(app, options)
  } catch (error) {
    await app.drain({ waitSeconds: 0 })
    throw error
  }
}
