-- A store as revision 0001 left it: operations in several states, dumped with sqlite3. Never change it.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE attempts (
	operation_id VARCHAR(64) NOT NULL, 
	generation INTEGER NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	token VARCHAR(64) NOT NULL, 
	adapter VARCHAR(200) NOT NULL, 
	adapter_version VARCHAR(200) NOT NULL, 
	environment VARCHAR(200) NOT NULL, 
	task_queue VARCHAR(700) NOT NULL, 
	journaled_at DATETIME NOT NULL, 
	outcome TEXT, 
	settled_at DATETIME, 
	PRIMARY KEY (operation_id, generation)
);
INSERT INTO "attempts" VALUES('op-kk3qiuhrocgrrspyasintqdlpsfse3ny',1,'execute','t','scripted','1','local','queue-scripted.v1','2026-07-01 12:00:01.000000','{"status":"completed","result":{"kind":"scripted","summary":"done","data":{"value":2},"blob":null}}','2026-07-01 12:00:01.000000');
INSERT INTO "attempts" VALUES('op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa',1,'execute','t','scripted','1','local','queue-scripted.v1','2026-07-01 12:00:02.000000','{"status":"unknown","code":"LOST","detail":"no reply","external_id":"job-7"}','2026-07-01 12:00:02.000000');
INSERT INTO "attempts" VALUES('op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',1,'execute','t','scripted','1','local','queue-scripted.v1','2026-07-01 12:00:03.000000','{"status":"completed","result":{"kind":"scripted","summary":"late","data":{"value":2},"blob":null}}','2026-07-01 12:00:03.000000');
CREATE TABLE claims (
	operation_id VARCHAR(64) NOT NULL, 
	resource VARCHAR(71) NOT NULL, 
	"exclusive" BOOLEAN NOT NULL, 
	held BOOLEAN NOT NULL, 
	overtakable BOOLEAN NOT NULL, 
	queued_at DATETIME NOT NULL, 
	PRIMARY KEY (operation_id, resource)
);
INSERT INTO "claims" VALUES('op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa','sha256:19fbbf7d138f93b9d8cb0770989b970738c6a2d2e77ddba5b992322294742470',1,1,0,'2026-07-01 12:00:02.000000');
INSERT INTO "claims" VALUES('op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa','sha256:e179e92d0078e02a0318db0d7b59bf52ad7ee2c49c951b3d568ba90bdddc730c',0,1,0,'2026-07-01 12:00:02.000000');
INSERT INTO "claims" VALUES('op-z4dz3mzpumamcagurk4za7visazwkjlp','sha256:19fbbf7d138f93b9d8cb0770989b970738c6a2d2e77ddba5b992322294742470',1,0,1,'2026-07-01 12:00:03.000000');
INSERT INTO "claims" VALUES('op-z4dz3mzpumamcagurk4za7visazwkjlp','sha256:e179e92d0078e02a0318db0d7b59bf52ad7ee2c49c951b3d568ba90bdddc730c',0,0,1,'2026-07-01 12:00:03.000000');
CREATE TABLE commands (
	operation_id VARCHAR(64) NOT NULL, 
	"key" VARCHAR(300) NOT NULL, 
	content_digest VARCHAR(71) NOT NULL, 
	answer TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	PRIMARY KEY (operation_id, "key")
);
INSERT INTO "commands" VALUES('op-kk3qiuhrocgrrspyasintqdlpsfse3ny','decide:sha256:008c11cb03cf7dbd972775e2b0e6a9e2af7305cf08dd3eab519612bbcad2b47b','sha256:008c11cb03cf7dbd972775e2b0e6a9e2af7305cf08dd3eab519612bbcad2b47b','{"status":"applied","operation_id":"op-kk3qiuhrocgrrspyasintqdlpsfse3ny","state":"queued","revision":3,"code":null,"detail":"approve by unauthenticated","remedy":""}','2026-07-01 12:00:01.000000');
INSERT INTO "commands" VALUES('op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa','decide:sha256:5cca457f57c46584719a6ebd89914235e9d4e18feae870c2bac2ec5f7b72f636','sha256:5cca457f57c46584719a6ebd89914235e9d4e18feae870c2bac2ec5f7b72f636','{"status":"applied","operation_id":"op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa","state":"queued","revision":3,"code":null,"detail":"approve by unauthenticated","remedy":""}','2026-07-01 12:00:02.000000');
INSERT INTO "commands" VALUES('op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv','decide:sha256:e722e1f59e6594e8ebe55f1c73db21496f4c76a9641ed8b2171b1dae3faa528b','sha256:e722e1f59e6594e8ebe55f1c73db21496f4c76a9641ed8b2171b1dae3faa528b','{"status":"applied","operation_id":"op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv","state":"queued","revision":3,"code":null,"detail":"approve by unauthenticated","remedy":""}','2026-07-01 12:00:03.000000');
INSERT INTO "commands" VALUES('op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv','resolve_unknown:k','sha256:75e9bd1b1a0f423b9738ffa0e903466f95a166404d093dbf7c8fe37d199a4880','{"status":"applied","operation_id":"op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv","state":"completed","revision":6,"code":null,"detail":"attested as applied","remedy":""}','2026-07-01 12:00:03.000000');
INSERT INTO "commands" VALUES('op-bbradtbcouimd5tu3lg3ka2wkzkiytk4','decide:sha256:8e120ba1b5360ec9255099a0c0d339490730c2773eeabfecb7478dea3bbd9f8c','sha256:8e120ba1b5360ec9255099a0c0d339490730c2773eeabfecb7478dea3bbd9f8c','{"status":"applied","operation_id":"op-bbradtbcouimd5tu3lg3ka2wkzkiytk4","state":"declined","revision":3,"code":null,"detail":"decline by unauthenticated","remedy":""}','2026-07-01 12:00:03.000000');
CREATE TABLE ledger (
	subject_kind VARCHAR(32) NOT NULL, 
	subject_id VARCHAR(200) NOT NULL, 
	version INTEGER NOT NULL, 
	session VARCHAR(200) NOT NULL, 
	timeline INTEGER NOT NULL, 
	kind VARCHAR(64) NOT NULL, 
	material BOOLEAN NOT NULL, 
	actor TEXT NOT NULL, 
	scope VARCHAR(16), 
	evidence TEXT, 
	summary TEXT NOT NULL, 
	data TEXT, 
	at DATETIME NOT NULL, 
	PRIMARY KEY (subject_kind, subject_id, version)
);
INSERT INTO "ledger" VALUES('operation','op-kk3qiuhrocgrrspyasintqdlpsfse3ny',1,'s',1,'created',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'record.update by scripted.v1','{"to":"held"}','2026-07-01 12:00:01.000000');
INSERT INTO "ledger" VALUES('operation','op-kk3qiuhrocgrrspyasintqdlpsfse3ny',2,'s',2,'prepare',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'preparation begins','{"to":"preparing"}','2026-07-01 12:00:01.000000');
INSERT INTO "ledger" VALUES('operation','op-kk3qiuhrocgrrspyasintqdlpsfse3ny',3,'s',3,'ask',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'sets A1 to 2','{"proposal":"sha256:860d349124bb71574a524ce664b38faa601245ac1ff2a8b357f65bd0f33e189f","to":"awaiting_decision"}','2026-07-01 12:00:01.000000');
INSERT INTO "ledger" VALUES('operation','op-kk3qiuhrocgrrspyasintqdlpsfse3ny',4,'s',4,'approve',1,'{"principal":"unauthenticated","authenticated":false,"scope":"review"}','review',NULL,'approve by unauthenticated','{"proposal":"sha256:860d349124bb71574a524ce664b38faa601245ac1ff2a8b357f65bd0f33e189f","to":"queued"}','2026-07-01 12:00:01.000000');
INSERT INTO "ledger" VALUES('operation','op-kk3qiuhrocgrrspyasintqdlpsfse3ny',5,'s',5,'grant',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'dispatched, attempt 1','{"adapter":"scripted@1","generation":1,"to":"dispatching"}','2026-07-01 12:00:01.000000');
INSERT INTO "ledger" VALUES('operation','op-kk3qiuhrocgrrspyasintqdlpsfse3ny',6,'s',6,'report_completed',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'done','{"result":"scripted","to":"completed"}','2026-07-01 12:00:01.000000');
INSERT INTO "ledger" VALUES('operation','op-kk3qiuhrocgrrspyasintqdlpsfse3ny',7,'s',7,'verification',1,'{"principal":"counterfoil","authenticated":true}',NULL,'{"source":"scripted target","observed_at":"2026-07-01T12:00:01Z","version":"2","facts":{}}','fresh evidence shows the whole change','{"kept":false,"status":"verified"}','2026-07-01 12:00:01.000000');
INSERT INTO "ledger" VALUES('operation','op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa',1,'s',8,'created',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'record.update by scripted.v1','{"to":"held"}','2026-07-01 12:00:02.000000');
INSERT INTO "ledger" VALUES('operation','op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa',2,'s',9,'prepare',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'preparation begins','{"to":"preparing"}','2026-07-01 12:00:02.000000');
INSERT INTO "ledger" VALUES('operation','op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa',3,'s',10,'ask',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'sets A1 to 2','{"proposal":"sha256:ca72e1e716ebb335001d4a883d4c016a7e4b2f2a3af397b94362052a3cf25a26","to":"awaiting_decision"}','2026-07-01 12:00:02.000000');
INSERT INTO "ledger" VALUES('operation','op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa',4,'s',11,'approve',1,'{"principal":"unauthenticated","authenticated":false,"scope":"review"}','review',NULL,'approve by unauthenticated','{"proposal":"sha256:ca72e1e716ebb335001d4a883d4c016a7e4b2f2a3af397b94362052a3cf25a26","to":"queued"}','2026-07-01 12:00:02.000000');
INSERT INTO "ledger" VALUES('operation','op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa',5,'s',12,'grant',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'dispatched, attempt 1','{"adapter":"scripted@1","generation":1,"to":"dispatching"}','2026-07-01 12:00:02.000000');
INSERT INTO "ledger" VALUES('operation','op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa',6,'s',13,'lose',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'no reply','{"code":"LOST","to":"unknown"}','2026-07-01 12:00:02.000000');
INSERT INTO "ledger" VALUES('operation','op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa',7,'s',14,'observation_exhausted',0,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'observation stopped: 0 polls told nothing final',NULL,'2026-07-01 12:00:02.000000');
INSERT INTO "ledger" VALUES('operation','op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',1,'s',15,'created',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'record.update by scripted.v1','{"to":"held"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',2,'s',16,'prepare',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'preparation begins','{"to":"preparing"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',3,'s',17,'ask',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'sets A1 to 2','{"proposal":"sha256:51f76267654f0ae59d27a9b77fb127c09e0e519f8e689fd98a0b47cb5013fd37","to":"awaiting_decision"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',4,'s',18,'approve',1,'{"principal":"unauthenticated","authenticated":false,"scope":"review"}','review',NULL,'approve by unauthenticated','{"proposal":"sha256:51f76267654f0ae59d27a9b77fb127c09e0e519f8e689fd98a0b47cb5013fd37","to":"queued"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',5,'s',19,'grant',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'dispatched, attempt 1','{"adapter":"scripted@1","generation":1,"to":"dispatching"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',6,'s',20,'lose',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'the worker was lost after it had journaled the attempt and before it recorded an outcome','{"code":"DISPATCH_LOST","generation":1,"to":"unknown"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',7,'s',21,'observation_exhausted',0,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'observation stopped: 0 polls told nothing final',NULL,'2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',8,'s',22,'attest_applied',1,'{"principal":"unauthenticated","authenticated":false,"scope":"attest"}','attest',NULL,'unauthenticated attests: applied. I looked','{"resolution_key":"k","status":"applied","to":"completed"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',9,'s',23,'late_reply',0,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'attempt 1 answered ''completed'' after it had been settled otherwise','{"generation":1,"status":"completed"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-z4dz3mzpumamcagurk4za7visazwkjlp',1,'s',24,'created',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'record.update by scripted.v1','{"to":"held"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-z4dz3mzpumamcagurk4za7visazwkjlp',2,'s',25,'prepare',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'preparation begins','{"to":"preparing"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-z4dz3mzpumamcagurk4za7visazwkjlp',3,'s',26,'queue',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'sets A1 to 3','{"proposal":"sha256:bd950fc9f6c40714b6a64c48062fccd3b72f1cd0491075143e28e5de233fc416","to":"queued"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-dg6kjivswdjep5fscutlcjkgqxqdjjwo',1,'s',27,'created',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'record.update by scripted.v1','{"to":"held"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-dg6kjivswdjep5fscutlcjkgqxqdjjwo',2,'s',28,'prepare',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'preparation begins','{"to":"preparing"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-dg6kjivswdjep5fscutlcjkgqxqdjjwo',3,'s',29,'ask',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'sets A1 to 4','{"proposal":"sha256:4eb7f066ae19fd7aa24370bfe41c61da4003db7c8500219fc0b0ee68aefc030a","to":"awaiting_decision"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-dg6kjivswdjep5fscutlcjkgqxqdjjwo',4,'s',30,'command_refused',0,'{"principal":"unauthenticated","authenticated":false}',NULL,NULL,'BAD_COMMAND: it came without an argument','{"channel":"signal","code":"BAD_COMMAND","command":"cancel"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-bbradtbcouimd5tu3lg3ka2wkzkiytk4',1,'other',1,'created',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'record.update by scripted.v1','{"to":"held"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-bbradtbcouimd5tu3lg3ka2wkzkiytk4',2,'other',2,'prepare',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'preparation begins','{"to":"preparing"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-bbradtbcouimd5tu3lg3ka2wkzkiytk4',3,'other',3,'ask',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'sets','{"proposal":"sha256:93c73c4a0d38f5fe1ad95c7ceeb2ab73b29f9cc0e54bf0a5bd5d85c73b444aa2","to":"awaiting_decision"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-bbradtbcouimd5tu3lg3ka2wkzkiytk4',4,'other',4,'decline',1,'{"principal":"unauthenticated","authenticated":false,"scope":"review"}','review',NULL,'decline by unauthenticated','{"proposal":"sha256:93c73c4a0d38f5fe1ad95c7ceeb2ab73b29f9cc0e54bf0a5bd5d85c73b444aa2","to":"declined"}','2026-07-01 12:00:03.000000');
INSERT INTO "ledger" VALUES('operation','op-lthxqvkmcfivbf4s5afb33sxgvf2mfgk',1,'s',31,'created',1,'{"principal":"counterfoil","authenticated":true}',NULL,NULL,'record.update by scripted.v1','{"to":"held"}','2026-07-01 12:00:03.000000');
CREATE TABLE operations (
	id VARCHAR(64) NOT NULL, 
	schema_version INTEGER NOT NULL, 
	workspace VARCHAR(200) NOT NULL, 
	session VARCHAR(200) NOT NULL, 
	turn VARCHAR(200), 
	idempotency_key VARCHAR(200) NOT NULL, 
	request_digest VARCHAR(71) NOT NULL, 
	request TEXT NOT NULL, 
	input_blob TEXT, 
	resources TEXT NOT NULL, 
	capability VARCHAR(200) NOT NULL, 
	route_id VARCHAR(200) NOT NULL, 
	route TEXT NOT NULL, 
	task_queue VARCHAR(700) NOT NULL, 
	intent VARCHAR(16) NOT NULL, 
	state VARCHAR(32) NOT NULL, 
	verification VARCHAR(16) NOT NULL, 
	cancellation VARCHAR(16) NOT NULL, 
	revision INTEGER NOT NULL, 
	ledger_version INTEGER NOT NULL, 
	ledger_floor INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	fence INTEGER NOT NULL, 
	attempts INTEGER NOT NULL, 
	polls INTEGER NOT NULL, 
	polls_limit INTEGER NOT NULL, 
	adapter_calls INTEGER NOT NULL, 
	attempt_open BOOLEAN NOT NULL, 
	cancel_sent BOOLEAN NOT NULL, 
	observation_exhausted BOOLEAN NOT NULL, 
	reverify BOOLEAN NOT NULL, 
	attested BOOLEAN NOT NULL, 
	prepared TEXT, 
	proposal_digest VARCHAR(71), 
	approved_digest VARCHAR(71), 
	decision TEXT, 
	external_id VARCHAR(200), 
	poll_after_seconds FLOAT, 
	blocked TEXT, 
	result TEXT, 
	evidence TEXT, 
	problem TEXT, 
	decision_expires_at DATETIME, 
	deadline DATETIME, 
	queued_at DATETIME, 
	first_dispatched_at DATETIME, 
	dispatched_at DATETIME, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	closed_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_operations_claim UNIQUE (session, idempotency_key)
);
INSERT INTO "operations" VALUES('op-kk3qiuhrocgrrspyasintqdlpsfse3ny',1,'w','s',NULL,'verified','sha256:c63df590ac19951a3d762ba32ca524c44948ac51a06b77703320d9efa13a62b2','{"schema_version":1,"owner":{"workspace":"w","session":"s","turn":null},"idempotency_key":"verified","capability":"record.update","route_id":"scripted.v1","objective":"set the value to 2","input":{"value":2},"resources":[{"kind":"file","system":"scripted","identity":"verified","account_id":null,"tenant_id":null,"version":null}],"plan_revision":0,"depends_on":[],"supersedes":null,"decision":{"reason":"it changes a file","question":"may I?","expires_after_seconds":null},"constraints":{"background_required":false,"max_attempts":1,"max_polls":120,"max_adapter_calls":1000,"deadline":null,"max_cost":null,"verification_max_age_seconds":null},"assumptions":[],"on_create":"execute"}',NULL,'[{"kind":"file","system":"scripted","identity":"verified","account_id":null,"tenant_id":null,"version":null}]','record.update','scripted.v1','{"id":"scripted.v1","adapter":"scripted","adapter_version":"1","capabilities":["record.update"],"protocol":"memory","control":"script","environment":"local","readiness":false,"preparation":"pure","observation":true,"cancellation":false,"verification":true,"background":true,"replay":{"kind":"none","retention_seconds":null},"cost_estimate":null,"call_timeout_seconds":2.0,"max_concurrent_calls":8}','queue-scripted.v1','execute','completed','verified','none',5,7,0,1,0,1,0,120,2,0,0,0,0,0,'{"status":"prepared","summary":"sets A1 to 2","preview":{"columns":["Cell","Before","After"],"rows":[["A1","1","2"]],"omitted_rows":0},"versions":[],"material":null,"data":{}}','sha256:860d349124bb71574a524ce664b38faa601245ac1ff2a8b357f65bd0f33e189f','sha256:860d349124bb71574a524ce664b38faa601245ac1ff2a8b357f65bd0f33e189f','{"verdict":"approve","proposal_digest":"sha256:860d349124bb71574a524ce664b38faa601245ac1ff2a8b357f65bd0f33e189f","notes":"fine","actor":{"principal":"unauthenticated","authenticated":false,"scope":"review"},"at":"2026-07-01T12:00:01Z"}',NULL,NULL,NULL,'{"kind":"scripted","summary":"done","data":{"value":2},"blob":null}','{"source":"scripted target","observed_at":"2026-07-01T12:00:01Z","version":"2","digest":null,"facts":{}}',NULL,NULL,NULL,'2026-07-01 12:00:01.000000','2026-07-01 12:00:01.000000','2026-07-01 12:00:01.000000','2026-07-01 12:00:01.000000','2026-07-01 12:00:01.000000','2026-07-01 12:00:01.000000');
INSERT INTO "operations" VALUES('op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa',1,'w','s',NULL,'unknown','sha256:7c6e546be6103a528cc18171935b53c92ec9f1965cd53d66f3211d6734fe79d1','{"schema_version":1,"owner":{"workspace":"w","session":"s","turn":null},"idempotency_key":"unknown","capability":"record.update","route_id":"scripted.v1","objective":"set the value to 2","input":{"value":2},"resources":[{"kind":"file","system":"scripted","identity":"unknown","account_id":null,"tenant_id":null,"version":null}],"plan_revision":0,"depends_on":[],"supersedes":null,"decision":{"reason":"it changes a file","question":"may I?","expires_after_seconds":null},"constraints":{"background_required":false,"max_attempts":1,"max_polls":0,"max_adapter_calls":1000,"deadline":"2030-01-01T00:00:00Z","max_cost":null,"verification_max_age_seconds":null},"assumptions":[],"on_create":"execute"}',NULL,'[{"kind":"file","system":"scripted","identity":"unknown","account_id":null,"tenant_id":null,"version":null}]','record.update','scripted.v1','{"id":"scripted.v1","adapter":"scripted","adapter_version":"1","capabilities":["record.update"],"protocol":"memory","control":"script","environment":"local","readiness":false,"preparation":"pure","observation":true,"cancellation":false,"verification":true,"background":true,"replay":{"kind":"none","retention_seconds":null},"cost_estimate":null,"call_timeout_seconds":2.0,"max_concurrent_calls":8}','queue-scripted.v1','execute','unknown','pending','none',5,7,0,1,0,1,0,0,1,0,0,1,0,0,'{"status":"prepared","summary":"sets A1 to 2","preview":{"columns":["Cell","Before","After"],"rows":[["A1","1","2"]],"omitted_rows":0},"versions":[],"material":null,"data":{}}','sha256:ca72e1e716ebb335001d4a883d4c016a7e4b2f2a3af397b94362052a3cf25a26','sha256:ca72e1e716ebb335001d4a883d4c016a7e4b2f2a3af397b94362052a3cf25a26','{"verdict":"approve","proposal_digest":"sha256:ca72e1e716ebb335001d4a883d4c016a7e4b2f2a3af397b94362052a3cf25a26","notes":"fine","actor":{"principal":"unauthenticated","authenticated":false,"scope":"review"},"at":"2026-07-01T12:00:02Z"}','job-7',NULL,NULL,NULL,NULL,'{"code":"LOST","detail":"no reply"}',NULL,'2030-01-01 00:00:00.000000','2026-07-01 12:00:02.000000','2026-07-01 12:00:02.000000','2026-07-01 12:00:02.000000','2026-07-01 12:00:02.000000','2026-07-01 12:00:02.000000',NULL);
INSERT INTO "operations" VALUES('op-qqljdzehmalpc72ltxdj2hsvpkgn3wvv',1,'w','s',NULL,'attested','sha256:d6a28537fa246928223f7b905e23dafaf7c25f802ab17bb3eb7e7b857fa34811','{"schema_version":1,"owner":{"workspace":"w","session":"s","turn":null},"idempotency_key":"attested","capability":"record.update","route_id":"scripted.v1","objective":"set the value to 2","input":{"value":2},"resources":[{"kind":"file","system":"scripted","identity":"attested","account_id":null,"tenant_id":null,"version":null}],"plan_revision":0,"depends_on":[],"supersedes":null,"decision":{"reason":"it changes a file","question":"may I?","expires_after_seconds":null},"constraints":{"background_required":false,"max_attempts":1,"max_polls":0,"max_adapter_calls":1000,"deadline":null,"max_cost":null,"verification_max_age_seconds":null},"assumptions":[],"on_create":"execute"}',NULL,'[{"kind":"file","system":"scripted","identity":"attested","account_id":null,"tenant_id":null,"version":null}]','record.update','scripted.v1','{"id":"scripted.v1","adapter":"scripted","adapter_version":"1","capabilities":["record.update"],"protocol":"memory","control":"script","environment":"local","readiness":false,"preparation":"pure","observation":true,"cancellation":false,"verification":true,"background":true,"replay":{"kind":"none","retention_seconds":null},"cost_estimate":null,"call_timeout_seconds":2.0,"max_concurrent_calls":8}','queue-scripted.v1','execute','completed','unavailable','none',6,9,0,1,1,1,0,0,1,0,0,1,0,1,'{"status":"prepared","summary":"sets A1 to 2","preview":{"columns":["Cell","Before","After"],"rows":[["A1","1","2"]],"omitted_rows":0},"versions":[],"material":null,"data":{}}','sha256:51f76267654f0ae59d27a9b77fb127c09e0e519f8e689fd98a0b47cb5013fd37','sha256:51f76267654f0ae59d27a9b77fb127c09e0e519f8e689fd98a0b47cb5013fd37','{"verdict":"approve","proposal_digest":"sha256:51f76267654f0ae59d27a9b77fb127c09e0e519f8e689fd98a0b47cb5013fd37","notes":"fine","actor":{"principal":"unauthenticated","authenticated":false,"scope":"review"},"at":"2026-07-01T12:00:03Z"}',NULL,NULL,NULL,'{"kind":"attestation","summary":"I looked","data":{},"blob":null}',NULL,'{"code":"ATTESTED","detail":"I looked"}',NULL,NULL,'2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000');
INSERT INTO "operations" VALUES('op-z4dz3mzpumamcagurk4za7visazwkjlp',1,'w','s',NULL,'waits','sha256:ab1eb2652456f0f4032463c52c4a20784b3e30e7893e402e5775427e7033f6c8','{"schema_version":1,"owner":{"workspace":"w","session":"s","turn":null},"idempotency_key":"waits","capability":"record.update","route_id":"scripted.v1","objective":"set the value to 2","input":{"value":2},"resources":[{"kind":"file","system":"scripted","identity":"unknown","account_id":null,"tenant_id":null,"version":null}],"plan_revision":0,"depends_on":[],"supersedes":null,"decision":null,"constraints":{"background_required":false,"max_attempts":1,"max_polls":120,"max_adapter_calls":1000,"deadline":null,"max_cost":null,"verification_max_age_seconds":null},"assumptions":[],"on_create":"execute"}',NULL,'[{"kind":"file","system":"scripted","identity":"unknown","account_id":null,"tenant_id":null,"version":null}]','record.update','scripted.v1','{"id":"scripted.v1","adapter":"scripted","adapter_version":"1","capabilities":["record.update"],"protocol":"memory","control":"script","environment":"local","readiness":false,"preparation":"pure","observation":true,"cancellation":false,"verification":true,"background":true,"replay":{"kind":"none","retention_seconds":null},"cost_estimate":null,"call_timeout_seconds":2.0,"max_concurrent_calls":8}','queue-scripted.v1','execute','queued','pending','none',2,3,0,0,0,0,0,120,0,0,0,0,0,0,'{"status":"prepared","summary":"sets A1 to 3","preview":null,"versions":[],"material":null,"data":{}}','sha256:bd950fc9f6c40714b6a64c48062fccd3b72f1cd0491075143e28e5de233fc416',NULL,NULL,NULL,NULL,'{"code":"LOCKED","detail":"scripted:unknown is held by op-clzwt4tn3zxjbbpgd34fw3bggtub4ypa, whose effect is unknown"}',NULL,NULL,NULL,NULL,NULL,'2026-07-01 12:00:03.000000',NULL,NULL,'2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000',NULL);
INSERT INTO "operations" VALUES('op-dg6kjivswdjep5fscutlcjkgqxqdjjwo',1,'w','s',NULL,'asks','sha256:dd4e80079b59df226f931801e09dee655823c576eb46be31db6ed1a145b63ef1','{"schema_version":1,"owner":{"workspace":"w","session":"s","turn":null},"idempotency_key":"asks","capability":"record.update","route_id":"scripted.v1","objective":"set the value to 2","input":{"value":2},"resources":[{"kind":"remote_entity","system":"scripted","identity":"record-1","account_id":null,"tenant_id":null,"version":null}],"plan_revision":0,"depends_on":[],"supersedes":null,"decision":{"reason":"r","question":"q","expires_after_seconds":3600.0},"constraints":{"background_required":false,"max_attempts":1,"max_polls":120,"max_adapter_calls":1000,"deadline":null,"max_cost":null,"verification_max_age_seconds":null},"assumptions":[],"on_create":"execute"}',NULL,'[{"kind":"remote_entity","system":"scripted","identity":"record-1","account_id":null,"tenant_id":null,"version":null}]','record.update','scripted.v1','{"id":"scripted.v1","adapter":"scripted","adapter_version":"1","capabilities":["record.update"],"protocol":"memory","control":"script","environment":"local","readiness":false,"preparation":"pure","observation":true,"cancellation":false,"verification":true,"background":true,"replay":{"kind":"none","retention_seconds":null},"cost_estimate":null,"call_timeout_seconds":2.0,"max_concurrent_calls":8}','queue-scripted.v1','execute','awaiting_decision','pending','none',2,4,0,0,0,0,0,120,0,0,0,0,0,0,'{"status":"prepared","summary":"sets A1 to 4","preview":null,"versions":[],"material":null,"data":{}}','sha256:4eb7f066ae19fd7aa24370bfe41c61da4003db7c8500219fc0b0ee68aefc030a',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-07-01 13:00:03.000000',NULL,NULL,NULL,NULL,'2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000',NULL);
INSERT INTO "operations" VALUES('op-bbradtbcouimd5tu3lg3ka2wkzkiytk4',1,'w','other','t1','declined','sha256:24d8d65fca9038be18a213603f1f7cc222276a4c557daf8c202cc11953b3df5c','{"schema_version":1,"owner":{"workspace":"w","session":"other","turn":"t1"},"idempotency_key":"declined","capability":"record.update","route_id":"scripted.v1","objective":"set the value to 2","input":{"value":2},"resources":[{"kind":"remote_entity","system":"scripted","identity":"record-1","account_id":null,"tenant_id":null,"version":null}],"plan_revision":0,"depends_on":[],"supersedes":null,"decision":{"reason":"r","question":"q","expires_after_seconds":null},"constraints":{"background_required":false,"max_attempts":1,"max_polls":120,"max_adapter_calls":1000,"deadline":null,"max_cost":null,"verification_max_age_seconds":null},"assumptions":[],"on_create":"execute"}',NULL,'[{"kind":"remote_entity","system":"scripted","identity":"record-1","account_id":null,"tenant_id":null,"version":null}]','record.update','scripted.v1','{"id":"scripted.v1","adapter":"scripted","adapter_version":"1","capabilities":["record.update"],"protocol":"memory","control":"script","environment":"local","readiness":false,"preparation":"pure","observation":true,"cancellation":false,"verification":true,"background":true,"replay":{"kind":"none","retention_seconds":null},"cost_estimate":null,"call_timeout_seconds":2.0,"max_concurrent_calls":8}','queue-scripted.v1','execute','declined','unavailable','none',3,4,0,0,0,0,0,120,0,0,0,0,0,0,'{"status":"prepared","summary":"sets","preview":null,"versions":[],"material":null,"data":{}}','sha256:93c73c4a0d38f5fe1ad95c7ceeb2ab73b29f9cc0e54bf0a5bd5d85c73b444aa2',NULL,'{"verdict":"decline","proposal_digest":"sha256:93c73c4a0d38f5fe1ad95c7ceeb2ab73b29f9cc0e54bf0a5bd5d85c73b444aa2","notes":"","actor":{"principal":"unauthenticated","authenticated":false,"scope":"review"},"at":"2026-07-01T12:00:03Z"}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000');
INSERT INTO "operations" VALUES('op-lthxqvkmcfivbf4s5afb33sxgvf2mfgk',1,'w','s',NULL,'held','sha256:fad4170b3fb9ee2646d7f250d1ccde9a05b5ce8cd77236e2a39fc90f7853f318','{"schema_version":1,"owner":{"workspace":"w","session":"s","turn":null},"idempotency_key":"held","capability":"record.update","route_id":"scripted.v1","objective":"set the value to 2","input":{},"resources":[{"kind":"remote_entity","system":"scripted","identity":"record-1","account_id":null,"tenant_id":null,"version":null}],"plan_revision":0,"depends_on":[],"supersedes":null,"decision":null,"constraints":{"background_required":false,"max_attempts":1,"max_polls":120,"max_adapter_calls":1000,"deadline":null,"max_cost":null,"verification_max_age_seconds":null},"assumptions":[],"on_create":"hold"}','{"digest":"sha256:bcfc2baa64d550fdd8d7e41d306364f4e979b3ade783912deeb39694ac9d2471","size_bytes":12008,"media_type":"application/json"}','[{"kind":"remote_entity","system":"scripted","identity":"record-1","account_id":null,"tenant_id":null,"version":null}]','record.update','scripted.v1','{"id":"scripted.v1","adapter":"scripted","adapter_version":"1","capabilities":["record.update"],"protocol":"memory","control":"script","environment":"local","readiness":false,"preparation":"pure","observation":true,"cancellation":false,"verification":true,"background":true,"replay":{"kind":"none","retention_seconds":null},"cost_estimate":null,"call_timeout_seconds":2.0,"max_concurrent_calls":8}','queue-scripted.v1','hold','held','pending','none',0,1,0,0,0,0,0,120,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-07-01 12:00:03.000000','2026-07-01 12:00:03.000000',NULL);
CREATE TABLE resources (
	digest VARCHAR(71) NOT NULL, 
	name VARCHAR(500) NOT NULL, 
	PRIMARY KEY (digest)
);
INSERT INTO "resources" VALUES('sha256:2bc9758354e4210e742ae31ce26b26b7572ceb8ad91385a156113a6f022b8a1c','scripted:verified');
INSERT INTO "resources" VALUES('sha256:e179e92d0078e02a0318db0d7b59bf52ad7ee2c49c951b3d568ba90bdddc730c','workspace:w');
INSERT INTO "resources" VALUES('sha256:19fbbf7d138f93b9d8cb0770989b970738c6a2d2e77ddba5b992322294742470','scripted:unknown');
INSERT INTO "resources" VALUES('sha256:6264f6d0fe65ce153920c75119f9b7a3476d244822014bcfe0ba95ea6d9c382d','scripted:attested');
CREATE TABLE sessions (
	id VARCHAR(200) NOT NULL, 
	workspace VARCHAR(200) NOT NULL, 
	timeline INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "sessions" VALUES('s','w',31);
INSERT INTO "sessions" VALUES('other','w',4);
CREATE INDEX ix_claims_held ON claims (resource, held, "exclusive");
CREATE INDEX ix_claims_waiting ON claims (resource, held, overtakable, "exclusive", queued_at);
CREATE UNIQUE INDEX ux_ledger_timeline ON ledger (session, timeline);
CREATE INDEX ix_operations_session ON operations (session, created_at);
CREATE INDEX ix_operations_state ON operations (state, updated_at);
COMMIT;
