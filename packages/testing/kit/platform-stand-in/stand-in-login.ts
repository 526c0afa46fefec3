import { refusal, type StandInAnswer, type StandInRequest } from './stand-in-request.ts'

/** What a poll of a device login is answered with before the token. */
export type DevicePoll = 'authorization_pending' | 'slow_down' | 'expired_token' | 'access_denied'

/** Logins of the stand-in: tokens that are good, and how a device login goes. */
export class StandInLogin {
  /** Good tokens by their text, with their ids. */
  readonly tokens = new Map([['standing-token', 'token-1']])
  readonly user = { id: 'user-1', email: 'ada@example.com', name: 'Ada' }
  /** Answers to the next polls; after them the login is allowed. */
  polls: DevicePoll[] = []
  /** Seconds. */
  interval = 0.01
  expiresAt: string | undefined = '2999-01-01T00:00:00Z'
  #issued = 0

  /** Routes that need no token; undefined for others. */
  open({ path: [first, second] }: StandInRequest): StandInAnswer | undefined {
    if (first !== 'device') return undefined
    if (second === 'authorize') return this.#authorize()
    const poll = this.polls.shift()
    if (poll !== undefined) return { status: 400, body: { error: poll } }
    this.#issued += 1
    const token = `device-token-${this.#issued}`
    const id = `device-${this.#issued}`
    this.tokens.set(token, id)
    return { body: { token, user: this.user, expires_at: this.expiresAt, token_id: id } }
  }

  /** Undefined for a good token. */
  refuse({ headers }: StandInRequest): StandInAnswer | undefined {
    const given = headers['authorization']
    if (given === undefined) {
      return refusal(401, 'Log in first.', { code: 'AUTH_HEADER_MISSING' })
    }
    return this.#idOf(given) === undefined
      ? refusal(401, 'This token is not known.', { code: 'TOKEN_INVALID' })
      : undefined
  }

  verify({ headers }: StandInRequest): StandInAnswer {
    return {
      body: {
        user: this.user,
        expires_at: this.expiresAt,
        token_id: this.#idOf(headers['authorization']),
        workspace: { id: 'workspace-1', name: 'lab', role: 'owner' },
      },
    }
  }

  revoke(id: string): StandInAnswer {
    for (const [token, tokenId] of this.tokens) if (tokenId === id) this.tokens.delete(token)
    return { status: 204 }
  }

  #authorize(): StandInAnswer {
    return {
      body: {
        device_code: 'planted-device-code',
        user_code: 'WDJB-MJHT',
        verification_uri: 'https://platform.example/device',
        verification_uri_complete: 'https://platform.example/device?code=WDJB-MJHT',
        expires_in: 600,
        interval: this.interval,
      },
    }
  }

  #idOf(authorization: string | string[] | undefined): string | undefined {
    return this.tokens.get(String(authorization).replace(/^Bearer /, ''))
  }
}
